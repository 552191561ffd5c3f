"""Which addresses a pod wants: its nics, read and checked against its network's subnets.

Pure: nothing is taken here, and all of a pod's nics are checked before anything is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Address
from alcove.api.objects import Object
from alcove.network.backings import Backing
from alcove.vpc import ranges
from alcove.vpc.addressing import Place, out_of_range
from alcove.vpc.allocator import Wish
from alcove.vpc.errors import Refused, Unavailable


class Nic(Struct, frozen=True):
    interface: str
    wish: Wish


def interface(index: int) -> str:
    return f"eth{index}"


def names(pod: Object) -> list[str]:
    """The interfaces of its nics, in order."""
    given: list[Object] = objects.get(pod, "spec", "nics", default=[]) or [{}]
    return [nic.get("name") or interface(index) for index, nic in enumerate(given)]


def wanted(pod: Object, backing: Backing, others: Mapping[str, Object], network: str) -> list[Nic]:
    """The pod's nics, at least one. `others` are the named subnets that the network cannot use now.

    Raises Refused, Unavailable.
    """
    given: list[Object] = objects.get(pod, "spec", "nics", default=[]) or [{}]
    found = [_nic(index, nic, backing, others, network) for index, nic in enumerate(given)]
    interfaces = [nic.interface for nic in found]
    chosen = [nic.wish.chosen for nic in found if nic.wish.chosen is not None]
    if len(set(interfaces)) < len(interfaces):
        raise Refused(f"spec.nics: two have the same name ({', '.join(interfaces)})")
    if len(set(chosen)) < len(chosen):
        raise Refused("spec.nics: two have the same address")
    return found


def _nic(index: int, nic: Object, backing: Backing, others: Mapping[str, Object], network: str) -> Nic:
    name, subnet = nic.get("name") or interface(index), nic.get("subnet") or ""
    address = ipaddress.ip_address(nic["ip"]) if nic.get("ip") else None
    if subnet:
        place = _named(subnet, backing, others, network)
        if address is not None and not ranges.is_usable(place.network, address):
            raise Refused(out_of_range(address, place))
        return Nic(name, Wish((place,), address))
    if address is None:
        return Nic(name, Wish(tuple(backing.subnets.values())))
    return Nic(name, Wish((_around(address, backing, network),), address))


def _named(subnet: str, backing: Backing, others: Mapping[str, Object], network: str) -> Place:
    place = backing.subnets.get(subnet)
    if place is not None:
        return place
    other = others.get(subnet)
    if other is None or objects.get(other, "spec", "vpc") != backing.vpc:
        # Whether another tenant has a subnet of that name is not told.
        raise Unavailable(f'network "{network}" has no subnet "{subnet}"')
    raise Unavailable(f'subnet "{subnet}" of network "{network}" is not ready')


def _around(address: Address, backing: Backing, network: str) -> Place:
    for place in backing.subnets.values():
        if address in place.network:
            if not ranges.is_usable(place.network, address):
                raise Refused(out_of_range(address, place))
            return place
    shown = ", ".join(f"{name} ({place.network})" for name, place in backing.subnets.items())
    raise Refused(f'address {address} is in no subnet of network "{network}": {shown}')
