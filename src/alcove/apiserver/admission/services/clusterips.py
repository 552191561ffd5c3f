"""Cluster IPs: claimed by IPAddress objects in the service's tenant, from the ranges of its network.

An address that nobody chose is taken at random, as in Kubernetes from the upper part of the range first: the lower
part is for addresses that users choose. So one that was just released is rarely given to another service at once,
and servers on one store rarely choose the same.
"""

import ipaddress
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from alcove.api import addresses, meta, service_ips
from alcove.api.errors import Forbidden, InternalError, Invalid
from alcove.api.fields import FieldError, invalid
from alcove.api.ids import Key, TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.kinds.core.services import types
from alcove.api.kinds.core.services.families import families_of, family_errors
from alcove.api.objects import Object
from alcove.api.resources import IP_ADDRESSES, NETWORKS, SERVICES
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.admission.services.claims import Setter, released
from alcove.apiserver.admission.services.supply import AddressRange, Supplies, Supply
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry
from alcove.store.base import ABSENT, WriteOp

_DECIDING = ("type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


class ClusterIps:
    def __init__(self, cache: Cache, clock: Callable[[], float], chance: random.Random) -> None:
        self._cache = cache
        self._clock = clock
        self._chance = chance
        self._supplies = Supplies()

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
        is_settled = old is not None and all(spec.get(field) == before.get(field) for field in _DECIDING)
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
        created = meta.format_time(self._clock())
        body = service_ips.encoded_claim(key.tenant, key.name, service, meta.new_uid(), created)
        return WriteOp(key, body, ABSENT)

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

    def _supply(self, tenant: TenantId, network: str) -> Supply:
        return self._supplies.of(self._cache.entry(Key(NETWORKS, tenant, "", network)))

    def _set_families(self, attributes: Attributes, setter: Setter, network: str) -> None:
        assert attributes.obj is not None
        spec, available = attributes.obj["spec"], self._supply(attributes.tenant, network).families
        families = families_of(spec, available or ("IPv4",))
        if available:
            _refuse(attributes, family_errors(spec, families, available))
        setter.update(spec, {"ipFamilies": families, "ipFamilyPolicy": _policy(spec)})

    def _choose(self, attributes: Attributes, setter: Setter, network: str) -> dict[str, Key]:
        """Set the addresses. Returns the claims of those that were drawn here, and so are free."""
        assert attributes.obj is not None
        spec, before = attributes.obj["spec"], attributes.old["spec"] if attributes.old is not None else {}
        supply = self._supply(attributes.tenant, network)
        if not supply.ranges or supply.is_ending:
            return {}
        families = families_of(spec, supply.families)
        _refuse(attributes, family_errors(spec, families, supply.families))
        chosen = list(spec.get("clusterIPs") or ())
        for address in chosen:
            if address not in before.get("clusterIPs", ()) and not supply.is_external:
                _refuse(attributes, _range_errors(chosen, address, supply.ranges))
        if supply.is_external and not chosen:
            return {}
        drawn: dict[str, Key] = {}
        for family in () if supply.is_external else families[len(chosen) :]:
            address, key = self._free(attributes.tenant, network, supply.ranges, family)
            chosen.append(address)
            drawn[address] = key
        setter.update(
            spec,
            {
                "clusterIP": chosen[0],
                "clusterIPs": chosen,
                "ipFamilies": families[: len(chosen)],
                "ipFamilyPolicy": _policy(spec),
            },
        )
        return drawn

    def _free(
        self, tenant: TenantId, network: str, ranges: Sequence[AddressRange], family: str
    ) -> tuple[str, Key]:
        """A free address of the first range of the family that has one, and its claim. Raises InternalError."""
        claims = self._cache.count(tenant, IP_ADDRESSES)
        for each in ranges:
            if each.family != family:
                continue
            for number in each.candidates(claims, self._chance):
                address = each.text(number)
                key = Key(IP_ADDRESSES, tenant, "", service_ips.canonical_claim_name(network, address))
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


def _policy(spec: Object) -> str:
    """A service that was an ExternalName before has none yet."""
    return spec.get("ipFamilyPolicy") or "SingleStack"


def _key(tenant: TenantId, network: str, address: str) -> Key:
    return Key(IP_ADDRESSES, tenant, "", service_ips.claim_name(network, address))


def _is_own(service: Object, entry: CacheEntry) -> bool:
    return service_ips.is_claimed_by(entry.object, service)


def _range_errors(chosen: list[str], address: str, ranges: Sequence[AddressRange]) -> list[FieldError]:
    parsed = ipaddress.ip_address(address)
    if any(each.has(parsed) for each in ranges):
        return []
    family = addresses.ip_family(address)
    valid = ", ".join(str(each.cidr) for each in ranges if each.family == family)
    message = (
        f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. "
        f"The range of valid IPs is {valid}"
    )
    return [invalid("spec.clusterIPs", chosen, message)]


def _refuse(attributes: Attributes, errors: Sequence[FieldError]) -> None:
    if errors:
        raise Invalid.of("", "Service", attributes.name, errors)
