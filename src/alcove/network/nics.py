"""The addresses that a pod requests: its `spec.nics`, parsed and checked against its network's subnets.

Pure: no I/O. All nics of a pod are checked before any address is allocated.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Address
from alcove.api.objects import Object
from alcove.network.provider_networks import ProviderNetwork
from alcove.vpc import ranges
from alcove.vpc.addressing import AddressPool, out_of_range
from alcove.vpc.allocator import AddressRequest
from alcove.vpc.errors import AddressUnavailable, RequestRefused


class RequestedNic(Struct, frozen=True):
    interface: str
    request: AddressRequest


def interface(index: int) -> str:
    return f"eth{index}"


def names(pod: Object) -> list[str]:
    """The interface names of the pod's nics, in order."""
    spec: list[Object] = objects.get(pod, "spec", "nics", default=[]) or [{}]
    return [nic.get("name") or interface(index) for index, nic in enumerate(spec)]


def requested_nics(
    pod: Object, backing: ProviderNetwork, others: Mapping[str, Object], network: str
) -> list[RequestedNic]:
    """The pod's nics, at least one. `others` are the named subnets that the network cannot use now.

    Raises RequestRefused and AddressUnavailable.
    """
    spec: list[Object] = objects.get(pod, "spec", "nics", default=[]) or [{}]
    requested = [_nic(index, nic, backing, others, network) for index, nic in enumerate(spec)]
    interfaces = [nic.interface for nic in requested]
    chosen = [nic.request.chosen for nic in requested if nic.request.chosen is not None]
    if len(set(interfaces)) < len(interfaces):
        raise RequestRefused(f"spec.nics: names must be unique ({', '.join(interfaces)})")
    if len(set(chosen)) < len(chosen):
        raise RequestRefused("spec.nics: addresses must be unique")
    return requested


def _nic(
    index: int, nic: Object, backing: ProviderNetwork, others: Mapping[str, Object], network: str
) -> RequestedNic:
    name, subnet = nic.get("name") or interface(index), nic.get("subnet") or ""
    address = ipaddress.ip_address(nic["ip"]) if nic.get("ip") else None
    if subnet:
        pool = _named(subnet, backing, others, network)
        if address is not None and not ranges.is_usable(pool.network, address):
            raise RequestRefused(out_of_range(address, pool))
        return RequestedNic(name, AddressRequest((pool,), address))
    if address is None:
        return RequestedNic(name, AddressRequest(tuple(backing.subnets.values())))
    return RequestedNic(name, AddressRequest((_pool_of(address, backing, network),), address))


def _named(subnet: str, backing: ProviderNetwork, others: Mapping[str, Object], network: str) -> AddressPool:
    pool = backing.subnets.get(subnet)
    if pool is not None:
        return pool
    other = others.get(subnet)
    if other is None or objects.get(other, "spec", "vpc") != backing.vpc:
        # The message must not reveal whether another tenant has a subnet of that name.
        raise AddressUnavailable(f'network "{network}" has no subnet "{subnet}"')
    raise AddressUnavailable(f'subnet "{subnet}" of network "{network}" is not ready')


def _pool_of(address: Address, backing: ProviderNetwork, network: str) -> AddressPool:
    for pool in backing.subnets.values():
        if address in pool.network:
            if not ranges.is_usable(pool.network, address):
                raise RequestRefused(out_of_range(address, pool))
            return pool
    shown = ", ".join(f"{name} ({pool.network})" for name, pool in backing.subnets.items())
    raise RequestRefused(f'address {address} is in no subnet of network "{network}": {shown}')
