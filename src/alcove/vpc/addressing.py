"""What an endpoint is to be: where its address is from, what it is for, on which droplet it is.

It is made whole in a single write.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Address, Network
from alcove.api.kinds.mizar import NODE_PORT, OWNER_LABEL, SCALED, SIMPLE
from alcove.api.kinds.ranges import gateway, read_number
from alcove.api.objects import Object
from alcove.vpc import claims, ranges
from alcove.vpc.states import ProvisioningState, enter
from alcove.vpc.vpc_cache import VpcCache, key_of, spec_of

EVERYWHERE = (SCALED, NODE_PORT)
"""Kinds that need no droplet."""


class AddressPool(Struct, frozen=True, kw_only=True):
    """Where an address is taken from."""

    vpc: str
    net: str = ""
    """The subnet; empty for addresses beside the subnets, as services have them."""
    network: Network
    scope: int
    """The VNI among whose endpoints the address is unique."""
    vni: int
    """The VNI on the wire. It is the scope's, unless networks share a range that is not split by VPC."""


class EndpointPurpose(Struct, frozen=True, kw_only=True):
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


def pool_in(subnet: Object, vni: int = 0) -> AddressPool:
    """In a provisioned subnet. `vni`: on the wire another than the subnet's."""
    network, scope = ranges.range_of(subnet), read_number(subnet["spec"].get("vni"))
    assert network is not None and scope is not None, "a provisioned subnet has a range and a number"
    name = objects.name(subnet)
    return AddressPool(vpc=spec_of(subnet, "vpc"), net=name, network=network, scope=scope, vni=vni or scope)


def build(cache: VpcCache, pool: AddressPool, purpose: EndpointPurpose, address: Address) -> Object:
    """The endpoint, as whole as can be: provisioned if its droplet is known, or if it needs none."""
    spec: Object = {
        "type": purpose.kind,
        "vpc": pool.vpc,
        "ip": str(address),
        "prefix": pool.network.prefixlen,
        "vni": pool.vni,
        "mac": claims.mac_of(address),
        "pod": purpose.what,
    }
    if pool.net:
        spec |= {"net": pool.net, "gw": str(gateway(pool.network))}
    if purpose.interface:
        spec["itf"] = purpose.interface
    name = claims.endpoint_name(pool.scope, address)
    endpoint: Object = {
        "metadata": {"name": name, "labels": {OWNER_LABEL: purpose.owner_uid}},
        "spec": spec,
    }
    if purpose.marks:
        endpoint["metadata"]["annotations"] = dict(purpose.marks)
    settle(cache, endpoint, purpose.droplet)
    return endpoint


def settle(cache: VpcCache, endpoint: Object, droplet: str) -> None:
    """Puts the endpoint on a droplet; what needs none is provisioned as it is."""
    spec = endpoint["spec"]
    host = cache.droplets.get(key_of(droplet)) if droplet else None
    told = {"droplet": droplet}
    if host is not None:
        told |= {"hostip": spec_of(host, "ip"), "hostmac": spec_of(host, "mac")}
    for field in ("droplet", "hostip", "hostmac"):
        if value := told.get(field):
            spec[field] = value
        else:
            spec.pop(field, None)
    is_whole = host is not None or spec.get("type") in EVERYWHERE
    enter(endpoint, ProvisioningState.PROVISIONED if is_whole else ProvisioningState.INIT, cache.clock())


def is_settled(cache: VpcCache, endpoint: Object, droplet: str) -> bool:
    """Whether `settle` would change nothing."""
    spec = dict(endpoint["spec"])
    settle(cache, {**endpoint, "spec": spec}, droplet)
    return bool(spec == endpoint["spec"])


def out_of_range(address: Address, pool: AddressPool) -> str:
    where = f'subnet "{pool.net}" ({pool.network})' if pool.net else f"range {pool.network}"
    if address.version != pool.network.version:
        return f"address {address} is IPv{address.version}, but {where} is IPv{pool.network.version}"
    if address not in pool.network:
        return f"address {address} is outside {where}"
    return f"address {address} is reserved in {where}"
