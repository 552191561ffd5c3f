"""What a network has for its services: ranges of addresses, their families, and the order in which free ones are tried.

It is computed once for each state of a network: every service that is created asks for it.
"""

import random
import socket
from collections.abc import Iterator

from msgspec import Struct

from alcove.api import service_ips
from alcove.api.addresses import Address, Network
from alcove.api.ids import Key, Revision
from alcove.api.weighed_cache import WeighedCache
from alcove.apiserver.cache.entries import CacheEntry

PROBES_MAX = 32
"""Addresses that are tried at random before the range is searched in order."""
_LOWER_MIN, _LOWER_MAX, _LOWER_SHARE = 16, 256, 16
_OFFSETS_MAX = 1 << 40
KEPT_RANGES_MAX = 16_384
"""Ranges of all networks that are kept; beyond that, the tenant with most loses those of a network unused for longest."""


class AddressRange(Struct, frozen=True):
    """One range. Addresses are given as offsets from its first one."""

    cidr: Network
    family: str
    first: int
    """The range's first address as a number."""
    offsets: range
    """Those of usable addresses: not the first one and, in IPv4, not the last. Of a larger range than anybody can use up,
    only a part."""
    upper: range
    """Taken at random, before the lower ones."""

    @classmethod
    def of(cls, cidr: Network) -> "AddressRange":
        is_ipv4 = cidr.version == 4
        usable = range(1, min(cidr.num_addresses - (1 if is_ipv4 else 0), _OFFSETS_MAX))
        lower = (
            0 if len(usable) < _LOWER_MIN else min(max(_LOWER_MIN, len(usable) // _LOWER_SHARE), _LOWER_MAX)
        )
        family = "IPv4" if is_ipv4 else "IPv6"
        return cls(cidr, family, int(cidr.network_address), usable, usable[lower:])

    def has(self, address: Address) -> bool:
        """Whether it is a usable address of the range."""
        return address in self.cidr and not (
            address == self.cidr.network_address
            or (self.family == "IPv4" and address == self.cidr.broadcast_address)
        )

    def text(self, offset: int) -> str:
        if self.family == "IPv4":
            # A tenth of the time that the other way takes.
            return socket.inet_ntoa((self.first + offset).to_bytes(4))
        return str(self.cidr.network_address + offset)

    def candidates(self, claims: int, chance: random.Random) -> Iterator[int]:
        """Offsets to try, of which one is free if any is and at most `claims` addresses are taken."""
        usable, upper = self.offsets, self.upper
        if not usable:
            return
        count = len(upper)
        for _ in range(PROBES_MAX if count else 0):
            yield upper.start + int(chance.random() * count)
        start = chance.randrange(count) if count else 0
        ordered = (upper[start:], upper[:start], usable[: len(usable) - count])
        for _, number in zip(range(claims + 1), (each for part in ordered for each in part), strict=False):
            yield number


class Supply(Struct, frozen=True):
    ranges: tuple[AddressRange, ...] = ()
    """Empty if the network does not exist, or its ranges are not known yet."""
    families: tuple[str, ...] = ()
    """Those of the ranges, in their order."""
    is_external: bool = False
    """Whether an external component chooses the addresses."""
    is_ending: bool = False
    """Whether the network is being deleted."""


_NOTHING = Supply()


class Supplies:
    """The supplies of the networks of one store."""

    def __init__(self) -> None:
        # Not by entry: that would keep the networks themselves, also old states of them, which may be large.
        self._kept: WeighedCache[tuple[Key, Revision], Supply] = WeighedCache(KEPT_RANGES_MAX)

    def of(self, network: CacheEntry | None) -> Supply:
        if network is None:
            return _NOTHING
        key = (network.key, network.revision)
        supply = self._kept.get(key)
        if supply is None:
            supply = _computed(network)
            self._kept.put(network.key.tenant, key, supply, 1 + len(supply.ranges))
        return supply


def _computed(entry: CacheEntry) -> Supply:
    network = entry.object
    ranges = tuple(map(AddressRange.of, service_ips.known_ranges(network)))
    return Supply(
        ranges,
        tuple(dict.fromkeys(each.family for each in ranges)),
        service_ips.is_external(network),
        "deletionTimestamp" in network["metadata"],
    )
