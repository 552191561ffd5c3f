"""Builds endpoints: the pool of the address, the purpose and the droplet.

An endpoint is complete after a single write.
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
    """A range that addresses are allocated from."""

    vpc: str
    net: str = ""
    """The subnet; empty for addresses outside all subnets, such as service addresses."""
    network: Network
    scope: int
    """The VNI among whose endpoints the address is unique."""
    vni: int
    """The VNI on the wire. It equals `scope`, unless several networks share one VPC's range."""


class EndpointPurpose(Struct, frozen=True, kw_only=True):
    """What an endpoint is for."""

    owner_uid: str
    what: str
    """Human-readable owner: `acme/default/web`."""
    kind: str = SIMPLE
    interface: str = ""
    droplet: str = ""
    """The droplet that hosts it; empty if not known yet."""
    marks: Mapping[str, str] = {}
    """Annotations of the endpoint."""


def pool_in(subnet: Object, vni: int = 0) -> AddressPool:
    """The pool of a provisioned subnet. `vni` overrides the subnet's VNI on the wire."""
    network, scope = ranges.range_of(subnet), read_number(subnet["spec"].get("vni"))
    assert network is not None and scope is not None, "a provisioned subnet has a range and a number"
    name = objects.name(subnet)
    return AddressPool(vpc=spec_of(subnet, "vpc"), net=name, network=network, scope=scope, vni=vni or scope)


def build(cache: VpcCache, pool: AddressPool, purpose: EndpointPurpose, address: Address) -> Object:
    """Build the endpoint. It is provisioned if its droplet is known or if its type needs none."""
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
    """Assign the endpoint to a droplet and set its state; types that need no droplet are provisioned without
    one."""
    spec = endpoint["spec"]
    host = cache.droplets.get(key_of(droplet)) if droplet else None
    fields = {"droplet": droplet}
    if host is not None:
        fields |= {"hostip": spec_of(host, "ip"), "hostmac": spec_of(host, "mac")}
    for field in ("droplet", "hostip", "hostmac"):
        if value := fields.get(field):
            spec[field] = value
        else:
            spec.pop(field, None)
    is_complete = host is not None or spec.get("type") in EVERYWHERE
    enter(endpoint, ProvisioningState.PROVISIONED if is_complete else ProvisioningState.INIT, cache.clock())


def is_settled(cache: VpcCache, endpoint: Object, droplet: str) -> bool:
    """Whether `settle` would change nothing."""
    spec = dict(endpoint["spec"])
    settle(cache, {**endpoint, "spec": spec}, droplet)
    return bool(spec == endpoint["spec"])


def out_of_range(address: Address, pool: AddressPool) -> str:
    """The error message for an address that is not usable in the pool."""
    where = f'subnet "{pool.net}" ({pool.network})' if pool.net else f"range {pool.network}"
    if address.version != pool.network.version:
        return f"address {address} is IPv{address.version}, but {where} is IPv{pool.network.version}"
    if address not in pool.network:
        return f"address {address} is outside {where}"
    return f"address {address} is reserved in {where}"
