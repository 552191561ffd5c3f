"""Address ranges: reading them from objects, their usable addresses, and finding free ranges.

A range's first address is the network address and its second the gateway's; IPv4's last one is broadcast.
"""

import ipaddress
from collections.abc import Iterable

from alcove.api.addresses import Address, Network
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.vpc.errors import RequestRefused

MADE_PREFIX = 16
"""Prefix length of ranges that the provider chooses."""
_MADE_WITHIN = ipaddress.IPv4Network("10.0.0.0/8")
_MADE_SIZE = 1 << (32 - MADE_PREFIX)


def range_of(obj: Object) -> Network | None:
    """The range in a VPC's, subnet's or network's spec; None if it has none yet."""
    spec = obj.get("spec") or {}
    prefix = read_number(spec.get("prefix"))
    if not spec.get("ip") or prefix is None:
        return None
    return ipaddress.ip_network(f"{spec['ip']}/{prefix}")


def write(spec: Object, network: Network) -> None:
    spec["ip"], spec["prefix"] = str(network.network_address), network.prefixlen


def first_usable(network: Network) -> int:
    return int(network.network_address) + 2


def last_usable(network: Network) -> int:
    return int(network.broadcast_address) - (1 if network.version == 4 else 0)


def is_usable(network: Network, address: Address) -> bool:
    """Whether an endpoint of this range may have the address."""
    return address in network and first_usable(network) <= int(address) <= last_usable(network)


def is_inside(part: Network, whole: Network) -> bool:
    return part.version == whole.version and whole.overlaps(part) and part.prefixlen >= whole.prefixlen


def overlaps(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


class RangeUsage:
    """Counts how many VPCs use each range that the provider may choose, and chooses one for a VPC without a
    range."""

    def __init__(self, avoid: Iterable[Network] = ()) -> None:
        avoided = tuple(avoid)
        self._counts = {
            int(part.network_address): 0
            for part in _MADE_WITHIN.subnets(new_prefix=MADE_PREFIX)
            if not any(overlaps(part, other) for other in avoided)
        }

    def count(self, network: Network, by: int) -> None:
        """Record that a VPC with this range was added (1) or removed (-1)."""
        if not overlaps(network, _MADE_WITHIN):
            return
        low = max(int(network.network_address), int(_MADE_WITHIN.network_address))
        high = min(int(network.broadcast_address), int(_MADE_WITHIN.broadcast_address))
        for start in range(low - low % _MADE_SIZE, high + 1, _MADE_SIZE):
            if start in self._counts:
                self._counts[start] += by

    def changed(self, change: ObjectChange) -> None:
        """Subscriber for a mirror of VPCs."""
        if change.old is not None and (network := range_of(change.old)):
            self.count(network, -1)
        if change.kind is not ChangeType.DELETED and (network := range_of(change.obj)):
            self.count(network, 1)

    def fresh(self, avoid: Iterable[Network] = ()) -> Network:
        """The range that the fewest VPCs use, the lowest of those: an unused one while there is any.

        VPCs are isolated, so two may have the same range. Raises RequestRefused if `avoid` excludes all
        ranges.
        """
        avoided = [network for network in avoid if overlaps(network, _MADE_WITHIN)]
        for start in sorted(self._counts, key=lambda start: (self._counts[start], start)):
            candidate = ipaddress.IPv4Network((start, MADE_PREFIX))
            if not any(overlaps(candidate, other) for other in avoided):
                return candidate
        raise RequestRefused(f"no free range in {_MADE_WITHIN}: set spec.ip and spec.prefix")


def free_part(whole: Network, taken: Iterable[Network], prefix: int) -> Network | None:
    """The lowest part of `whole` with this prefix that overlaps nothing of `taken`; None if there is none.

    Jumps from one taken part to the next: the work grows with their number, not with the range.
    """
    size = 1 << (whole.max_prefixlen - prefix)
    at, end = int(whole.network_address), int(whole.broadcast_address) + 1
    bounds = sorted(
        (int(other.network_address), int(other.broadcast_address) + 1)
        for other in taken
        if overlaps(other, whole)
    )
    for low, high in bounds:
        if at + size <= low:
            break
        if high > at:
            at = -(-high // size) * size
    if at + size > end:
        return None
    return type(whole)((at, prefix))
