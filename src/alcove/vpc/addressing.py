"""What an endpoint is to be: where its address is from, what it is for, on which droplet it is.

It is made whole in a single write.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Address, Network
from alcove.api.kinds.mizar import DOOR, OWNER_LABEL, SCALED, SIMPLE
from alcove.api.kinds.ranges import gateway, read_number
from alcove.api.objects import Object
from alcove.vpc import claims, ranges
from alcove.vpc.states import State, enter
from alcove.vpc.world import World, key_of, spec_of

EVERYWHERE = (SCALED, DOOR)
"""Kinds that need no droplet."""


class Place(Struct, frozen=True, kw_only=True):
    """Where an address is taken from."""

    vpc: str
    net: str = ""
    """The subnet; empty for addresses beside the subnets, as services have them."""
    network: Network
    scope: int
    """The VNI among whose endpoints the address is unique."""
    vni: int
    """The VNI on the wire. It is the scope's, unless networks share a range that is not split by VPC."""


class Purpose(Struct, frozen=True, kw_only=True):
    """What an endpoint is for."""

    owner_uid: str
    what: str
    """For people: `acme/default/web`."""
    kind: str = SIMPLE
    interface: str = ""
    droplet: str = ""
    """Where it is; empty: not known yet."""
    marks: Mapping[str, str] = {}
    """Annotations."""


def place_in(subnet: Object, vni: int = 0) -> Place:
    """In a provisioned subnet. `vni`: on the wire another than the subnet's."""
    network, scope = ranges.range_of(subnet), read_number(subnet["spec"].get("vni"))
    assert network is not None and scope is not None, "a provisioned subnet has a range and a number"
    name = objects.name(subnet)
    return Place(vpc=spec_of(subnet, "vpc"), net=name, network=network, scope=scope, vni=vni or scope)


def build(world: World, place: Place, purpose: Purpose, address: Address) -> Object:
    """The endpoint, as whole as can be: provisioned if its droplet is known, or if it needs none."""
    spec: Object = {
        "type": purpose.kind,
        "vpc": place.vpc,
        "ip": str(address),
        "prefix": place.network.prefixlen,
        "vni": place.vni,
        "mac": claims.mac_of(address),
        "pod": purpose.what,
    }
    if place.net:
        spec |= {"net": place.net, "gw": str(gateway(place.network))}
    if purpose.interface:
        spec["itf"] = purpose.interface
    name = claims.endpoint_name(place.scope, address)
    endpoint: Object = {
        "metadata": {"name": name, "labels": {OWNER_LABEL: purpose.owner_uid}},
        "spec": spec,
    }
    if purpose.marks:
        endpoint["metadata"]["annotations"] = dict(purpose.marks)
    settle(world, endpoint, purpose.droplet)
    return endpoint


def settle(world: World, endpoint: Object, droplet: str) -> None:
    """Puts the endpoint on a droplet; what needs none is provisioned as it is."""
    spec = endpoint["spec"]
    host = world.droplets.get(key_of(droplet)) if droplet else None
    told = {"droplet": droplet}
    if host is not None:
        told |= {"hostip": spec_of(host, "ip"), "hostmac": spec_of(host, "mac")}
    for field in ("droplet", "hostip", "hostmac"):
        if value := told.get(field):
            spec[field] = value
        else:
            spec.pop(field, None)
    is_whole = host is not None or spec.get("type") in EVERYWHERE
    enter(endpoint, State.PROVISIONED if is_whole else State.INIT, world.clock())


def is_settled(world: World, endpoint: Object, droplet: str) -> bool:
    """Whether `settle` would change nothing."""
    spec = dict(endpoint["spec"])
    settle(world, {**endpoint, "spec": spec}, droplet)
    return bool(spec == endpoint["spec"])


def out_of_range(address: Address, place: Place) -> str:
    where = f'subnet "{place.net}" ({place.network})' if place.net else f"range {place.network}"
    if address.version != place.network.version:
        return f"address {address} is IPv{address.version}, but {where} is IPv{place.network.version}"
    if address not in place.network:
        return f"address {address} is outside {where}"
    return f"address {address} is reserved in {where}"
