"""Gateways' own addresses: where the world comes into a network, each node that has pods of it needs an address there
that no other node has, for the world's packets to come as.

Such an address is an endpoint of type `gateway`. It is made when the network has both a way in (an endpoint of type
`door`, or its tenant a host name that Ingresses serve) and a pod on the node, and goes with either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import GATEWAY, NODE_PORT, SIMPLE
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import TENANTS, VPC_ENDPOINTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.tenants.controller import tenant_key
from alcove.network.ingress.claims import hosts_of
from alcove.network.owners import OwnerRef
from alcove.vpc.addressing import EndpointPurpose, pool_in
from alcove.vpc.allocator import AddressAllocator
from alcove.vpc.errors import VpcError
from alcove.vpc.states import is_going, is_provisioned
from alcove.vpc.vpc_cache import VpcCache, key_of, spec_of

RETRY_SECONDS = 30.0


class GatewayController(Controller):
    """Its keys are not endpoints' but `{vni}.{droplet}`: one for each network on each droplet."""

    name = "gateway"
    resource = VPC_ENDPOINTS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self.reads += cache.mirrors
        self._allocator = AddressAllocator(cache, context.clock)
        cache.endpoints.add_index("lodging", _lodging)
        cache.endpoints.add_index("network-pods", lambda each: _number_of(each, SIMPLE))
        cache.endpoints.add_index("network-doors", lambda each: _number_of(each, NODE_PORT))
        cache.endpoints.add_index("tenant-pods", _tenant_of)
        self._tenants = self.mirror(TENANTS)
        self.on(cache.endpoints, self._concerned)
        self.on(self._tenants, self._of_tenant)

    def _of_tenant(self, change: ObjectChange) -> Iterable[ObjectKey]:
        old, is_served = change.old, change.kind is not ChangeType.DELETED and bool(hosts_of(change.obj))
        if is_served == (old is not None and bool(hosts_of(old))):
            return ()
        pods = self._cache.endpoints.find("tenant-pods", HOME, SYSTEM, change.key.name)
        return {key_of(each) for pod in pods for each in _lodging(pod)}

    def _is_served(self, lodgers: list[Object]) -> bool:
        """Whether the tenant of the pods has host names of its own."""
        ref = OwnerRef.parse(spec_of(lodgers[0], "pod")) if lodgers else None
        tenant = self._tenants.get(tenant_key(ref.tenant)) if ref is not None else None
        return tenant is not None and bool(hosts_of(tenant))

    def _concerned(self, change: ObjectChange) -> Iterable[ObjectKey]:
        kind = spec_of(change.obj, "type")
        if kind in (SIMPLE, GATEWAY):
            found = {*_lodging(change.obj), *_gateway(change.obj)}
            if change.kind is ChangeType.UPDATED and change.old is not None:
                before = {*_lodging(change.old), *_gateway(change.old)}
                found = found ^ before
            return [key_of(each) for each in found]
        if kind == NODE_PORT and change.kind is not ChangeType.UPDATED:
            pods = self._cache.endpoints.find("network-pods", HOME, SYSTEM, spec_of(change.obj, "vni"))
            return {key_of(each) for pod in pods for each in _lodging(pod)}
        return ()

    async def reconcile(self, key: ObjectKey) -> Result:
        vni, _, droplet = key.name.partition(".")
        there = self._cache.endpoints_of(owner_of(vni, droplet))
        lodgers = self._cache.endpoints.find("lodging", HOME, SYSTEM, key.name)
        has_doors = bool(self._cache.endpoints.find_keys("network-doors", HOME, SYSTEM, vni))
        is_needed = bool(lodgers) and (has_doors or self._is_served(lodgers))
        for surplus in there[1 if is_needed else 0 :]:
            await self._cache.delete(VPC_ENDPOINTS, objects.name(surplus), surplus["metadata"]["uid"])
        if is_needed and not there:
            return await self._claim(int(vni), droplet, lodgers[0])
        return DONE

    async def _claim(self, vni: int, droplet: str, lodger: Object) -> Result:
        subnet = self._cache.subnet(spec_of(lodger, "net"))
        if subnet is None or not is_provisioned(subnet) or is_going(subnet):
            return Result(after_seconds=RETRY_SECONDS)
        pool = pool_in(subnet, vni)
        purpose = EndpointPurpose(
            owner_uid=owner_of(str(vni), droplet),
            what=f"gateway on {droplet}",
            kind=GATEWAY,
            droplet=droplet,
        )
        try:
            await self._allocator.claim(pool, purpose)
        except VpcError:
            return Result(after_seconds=RETRY_SECONDS)
        return DONE


def owner_of(vni: str, droplet: str) -> str:
    """What a gateway's endpoint has in the place of an owner's uid: a label has less room than names."""
    return f"gateway-{vni}-{hashlib.blake2b(droplet.encode(), digest_size=8).hexdigest()}"


def _lodging(endpoint: Object) -> Iterable[str]:
    """The network and droplet that a pod's endpoint is on."""
    droplet, vni = spec_of(endpoint, "droplet"), spec_of(endpoint, "vni")
    return (f"{vni}.{droplet}",) if spec_of(endpoint, "type") == SIMPLE and droplet and vni else ()


def _gateway(endpoint: Object) -> Iterable[str]:
    droplet, vni = spec_of(endpoint, "droplet"), spec_of(endpoint, "vni")
    return (f"{vni}.{droplet}",) if spec_of(endpoint, "type") == GATEWAY and droplet and vni else ()


def _tenant_of(endpoint: Object) -> Iterable[str]:
    ref = OwnerRef.parse(spec_of(endpoint, "pod"))
    return (ref.tenant,) if ref is not None and spec_of(endpoint, "type") == SIMPLE else ()


def _number_of(endpoint: Object, kind: str) -> Iterable[str]:
    vni = spec_of(endpoint, "vni")
    return (vni,) if spec_of(endpoint, "type") == kind and vni else ()
