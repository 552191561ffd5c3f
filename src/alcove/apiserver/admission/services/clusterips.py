"""Cluster IPs: claimed by IPAddress objects in the service's tenant, from the ranges of its network.

An address that nobody chose is taken at random, as in Kubernetes from the upper part of the range first: the lower
part is for addresses that users choose. So one that was just released is rarely given to another service at once,
and servers on one store rarely choose the same.
"""

import ipaddress
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

from msgspec import Struct

from alcove.api import addresses, service_ips
from alcove.api.addresses import Address, Network
from alcove.api.errors import Forbidden, InternalError, Invalid
from alcove.api.fields import FieldError, invalid
from alcove.api.ids import Key, TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.kinds.core.services import types
from alcove.api.kinds.core.services.families import families_of, family_errors
from alcove.api.objects import Object
from alcove.api.resources import IP_ADDRESSES, NETWORKS, SERVICES
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.admission.services.claims import Setter, created, released
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry
from alcove.store.base import WriteOp

PROBES_MAX = 32
"""Addresses that are tried at random before the range is searched in order."""
_LOWER_MIN, _LOWER_MAX, _LOWER_SHARE = 16, 256, 16
_OFFSETS_MAX = 1 << 40
_DECIDING = ("type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


class ClusterIps:
    def __init__(self, cache: Cache, clock: Callable[[], float], chance: random.Random) -> None:
        self._cache = cache
        self._clock = clock
        self._chance = chance

    def allocate(self, attributes: Attributes, setter: Setter) -> None:
        """Set the addresses that the service lacks, and add the claims of new ones to its transaction.

        A service in a network whose ranges are not known yet stays without an address. Raises Invalid and
        InternalError.
        """
        service, old = attributes.obj, attributes.old
        assert service is not None
        spec, before = service["spec"], old["spec"] if old is not None else {}
        if not types.has_cluster_ip(spec):
            return
        is_settled = all(spec.get(field) == before.get(field) for field in _DECIDING)
        network = network_of(service)
        if types.is_headless(spec):
            if not is_settled:
                self._set_families(attributes, setter, network)
            return
        drawn: dict[str, Key] = {}
        if not (is_settled and spec.get("clusterIP")):
            drawn = self._choose(attributes, setter, network)
        for address in spec.get("clusterIPs") or ():
            if address in drawn:
                attributes.also.append(self.claim(drawn[address], service))
                continue
            is_new = address not in before.get("clusterIPs", ())
            self._claim(attributes, _key(attributes.tenant, network, address), address, is_new=is_new)

    def held(self, tenant: TenantId, service: Object) -> Iterator[Key]:
        """The claims of the service's addresses."""
        spec, network = service["spec"], network_of(service)
        if types.has_cluster_ip(spec) and not types.is_headless(spec):
            for address in spec.get("clusterIPs") or ():
                yield _key(tenant, network, address)

    def claim(self, key: Key, service: Object) -> WriteOp:
        path = f"/apis/networking.k8s.io/v1/tenants/{key.tenant}/ipaddresses"
        return created(key, service_ips.claim(key.name, service), path, self._clock())

    def release(self, key: Key, service: Object) -> list[WriteOp]:
        return released(self._cache.entry(key), partial(_is_own, service))

    def check_unused(self, attributes: Attributes) -> None:
        """Raises Forbidden if the IPAddress that is to be deleted is a service's: its address would be free for
        another one."""
        claim = attributes.old
        assert claim is not None
        parent = claim["spec"]["parentRef"]
        if parent.get("group") or parent["resource"] != SERVICES.resource:
            return
        service = self._cache.get(attributes.tenant, SERVICES, parent.get("namespace", ""), parent["name"])
        name = attributes.name
        if service is not None and name in (key.name for key in self.held(attributes.tenant, service)):
            message = f'it is the cluster IP of the service "{parent["namespace"]}/{parent["name"]}"'
            raise Forbidden.of(IP_ADDRESSES, name, message)

    # Families and addresses

    def _set_families(self, attributes: Attributes, setter: Setter, name: str) -> None:
        assert attributes.obj is not None
        spec, network = attributes.obj["spec"], self._cache.get(attributes.tenant, NETWORKS, "", name)
        available = _families(service_ips.known_ranges(network) if network is not None else ())
        families = families_of(spec, available or ["IPv4"])
        if available:
            _refuse(attributes, family_errors(spec, families, available))
        setter.set(spec, "ipFamilies", families)
        _set_policy(setter, spec)

    def _choose(self, attributes: Attributes, setter: Setter, name: str) -> dict[str, Key]:
        """Set the addresses. Returns the claims of those that were drawn here, and so are free."""
        assert attributes.obj is not None
        spec, before = attributes.obj["spec"], attributes.old["spec"] if attributes.old is not None else {}
        network = self._cache.get(attributes.tenant, NETWORKS, "", name)
        ranges = service_ips.known_ranges(network) if network is not None else ()
        if network is None or not ranges or "deletionTimestamp" in network["metadata"]:
            return {}
        available = _families(ranges)
        families = families_of(spec, available)
        _refuse(attributes, family_errors(spec, families, available))
        chosen = list(spec.get("clusterIPs") or ())
        is_external = service_ips.is_external(network)
        for address in chosen:
            if address not in before.get("clusterIPs", ()) and not is_external:
                _refuse(attributes, _range_errors(chosen, address, ranges))
        if is_external and not chosen:
            return {}
        drawn: dict[str, Key] = {}
        for family in () if is_external else families[len(chosen) :]:
            of_family = [each for each in ranges if _family(each) == family]
            address, key = self._free(attributes.tenant, name, of_family)
            chosen.append(address)
            drawn[address] = key
        setter.set(spec, "clusterIP", chosen[0])
        setter.set(spec, "clusterIPs", chosen)
        setter.set(spec, "ipFamilies", families[: len(chosen)])
        _set_policy(setter, spec)
        return drawn

    def _free(self, tenant: TenantId, network: str, ranges: Sequence[Network]) -> tuple[str, Key]:
        """A free address of the first range that has one, and its claim. Raises InternalError."""
        claims = self._cache.count(tenant, IP_ADDRESSES)
        for cidr in ranges:
            for number in candidates(cidr, claims, self._chance):
                address = _text(cidr, number)
                key = _key(tenant, network, address)
                if self._cache.entry(key) is None:
                    return address, key
        raise InternalError("Internal error occurred: failed to allocate a serviceIP: range is full")

    # Claims

    def _claim(self, attributes: Attributes, key: Key, address: str, *, is_new: bool) -> None:
        service, entry = attributes.obj, self._cache.entry(key)
        assert service is not None
        if entry is None:
            attributes.also.append(self.claim(key, service))
        elif is_new and not _is_own(service, entry):
            message = f"failed to allocate IP {address}: provided IP is already allocated"
            _refuse(attributes, [invalid("spec.clusterIPs", service["spec"]["clusterIPs"], message)])


def _set_policy(setter: Setter, spec: Object) -> None:
    """A service that was an ExternalName before has no policy yet."""
    if not spec.get("ipFamilyPolicy"):
        setter.set(spec, "ipFamilyPolicy", "SingleStack")


def _key(tenant: TenantId, network: str, address: str) -> Key:
    return Key(IP_ADDRESSES, tenant, "", service_ips.claim_name(network, address))


def _is_own(service: Object, entry: CacheEntry) -> bool:
    return service_ips.is_claimed_by(entry.object, service)


def _family(cidr: Network) -> str:
    return "IPv4" if cidr.version == 4 else "IPv6"


def _families(ranges: Sequence[Network]) -> list[str]:
    return list(dict.fromkeys(map(_family, ranges)))


def _range_errors(chosen: list[str], address: str, ranges: Sequence[Network]) -> list[FieldError]:
    parsed = ipaddress.ip_address(address)
    if any(parsed in cidr and _is_usable(parsed, cidr) for cidr in ranges):
        return []
    valid = ", ".join(str(each) for each in ranges if _family(each) == addresses.ip_family(address))
    message = (
        f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. "
        f"The range of valid IPs is {valid}"
    )
    return [invalid("spec.clusterIPs", chosen, message)]


def _refuse(attributes: Attributes, errors: Sequence[FieldError]) -> None:
    if errors:
        raise Invalid.of("", "Service", attributes.name, errors)


def _is_usable(address: Address, cidr: Network) -> bool:
    return address != cidr.network_address and not (cidr.version == 4 and address == cidr.broadcast_address)


def _text(cidr: Network, offset: int) -> str:
    if cidr.version == 4:
        # A tenth of the time that the other way takes.
        return socket.inet_ntoa((_usable(cidr).first + offset).to_bytes(4))
    return str(cidr.network_address + offset)


class _Usable(Struct, frozen=True):
    """The addresses of a range that services get, as offsets."""

    first: int
    """The range's first address as a number."""
    offsets: range
    upper: range
    """Taken at random, before the lower ones."""


@lru_cache(maxsize=4096)
def _usable(cidr: Network) -> _Usable:
    usable = offsets(cidr)
    lower = 0 if len(usable) < _LOWER_MIN else min(max(_LOWER_MIN, len(usable) // _LOWER_SHARE), _LOWER_MAX)
    return _Usable(int(cidr.network_address), usable, usable[lower:])


def offsets(cidr: Network) -> range:
    """Offsets of the range's usable addresses: not its first one and, in IPv4, not the last. Of a larger range than
    anybody can use up, only a part."""
    return range(1, min(cidr.num_addresses - (1 if cidr.version == 4 else 0), _OFFSETS_MAX))


def candidates(cidr: Network, claims: int, chance: random.Random) -> Iterator[int]:
    """Offsets to try, of which one is free if any is and at most `claims` addresses are taken."""
    of_range = _usable(cidr)
    usable, upper = of_range.offsets, of_range.upper
    if not usable:
        return
    for _ in range(PROBES_MAX if upper else 0):
        yield upper[chance.randrange(len(upper))]
    start = chance.randrange(len(upper)) if upper else 0
    ordered = (upper[start:], upper[:start], usable[: len(usable) - len(upper)])
    for _, number in zip(range(claims + 1), (each for part in ordered for each in part), strict=False):
        yield number
