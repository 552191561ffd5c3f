"""Gateway addresses: in a network with ingress from outside, each node that runs a pod of the network needs
an address of its own there, which is the source address of the forwarded packets.

Such an address is an endpoint of type `gateway`. It exists while the network has both ingress (an endpoint of
type `door`, or domains of its tenant, whose Ingresses may serve them) and a pod on the node. Ring0 needs no
domains for its Ingresses, and its pods may have host ports, as those of tenants that it trusts, so their networks
always have such addresses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.tenants import is_trusted
from alcove.api.kinds.mizar import GATEWAY, NODE_PORT, SIMPLE
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import TENANTS, VPC_ENDPOINTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.tenants.controller import tenant_key
from alcove.network.ingress.domains import domains_of
from alcove.network.owners import OwnerRef
from alcove.vpc.addressing import EndpointPurpose, pool_in
from alcove.vpc.allocator import AddressAllocator
from alcove.vpc.errors import VpcError
from alcove.vpc.states import is_going, is_provisioned
from alcove.vpc.vpc_cache import VpcCache, key_of, spec_of

RETRY_SECONDS = 30.0


class GatewayController(Controller):
    """Its keys do not name endpoints but `{vni}.{droplet}`: one for each network on each droplet."""

    name = "gateway"
    is_ring0 = True
    resource = VPC_ENDPOINTS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self.reads += cache.mirrors
        self._allocator = AddressAllocator(cache, context.clock)
        cache.endpoints.add_index("pod-location", _pod_location)
        cache.endpoints.add_index("network-pods", lambda each: _vni_of(each, SIMPLE))
        cache.endpoints.add_index("network-node-ports", lambda each: _vni_of(each, NODE_PORT))
        cache.endpoints.add_index("tenant-pods", _tenant_of)
        self._tenants = self.mirror(TENANTS, tenant=SYSTEM, only=HOME)
        self.on(cache.endpoints, self._of_endpoint)
        self.on(cache.subnets, self._of_subnet)
        self.on(self._tenants, self._of_tenant)

    def _of_tenant(self, change: ObjectChange) -> Iterable[ObjectKey]:
        before = change.old is not None and _has_ingress(change.old)
        if before == (change.kind is not ChangeType.DELETED and _has_ingress(change.obj)):
            return ()
        pods = self._cache.endpoints.find("tenant-pods", HOME, SYSTEM, change.key.name)
        return {key_of(each) for pod in pods for each in _pod_location(pod)}

    def _of_subnet(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The gateways with an address in a subnet that is being deleted."""
        if change.kind is not ChangeType.DELETED and not is_going(change.obj):
            return ()
        endpoints = self._cache.endpoints.find("net", HOME, SYSTEM, change.key.name)
        return {key_of(each) for endpoint in endpoints for each in _gateway(endpoint)}

    def _is_served(self, pod_endpoints: list[Object]) -> bool:
        """Whether the pods' tenant may have ingress without node ports of services."""
        ref = OwnerRef.parse(spec_of(pod_endpoints[0], "pod")) if pod_endpoints else None
        if ref is None:
            return False
        tenant = self._tenants.get(tenant_key(ref.tenant))
        return ref.tenant == SYSTEM or (tenant is not None and _has_ingress(tenant))

    def _of_endpoint(self, change: ObjectChange) -> Iterable[ObjectKey]:
        kind = spec_of(change.obj, "type")
        if kind in (SIMPLE, GATEWAY):
            locations = {*_pod_location(change.obj), *_gateway(change.obj)}
            if change.kind is ChangeType.UPDATED and change.old is not None:
                before = {*_pod_location(change.old), *_gateway(change.old)}
                locations = locations ^ before
            return [key_of(each) for each in locations]
        vnis = {spec_of(change.obj, "vni")} if kind == NODE_PORT else set()
        if vnis and change.kind is ChangeType.UPDATED and change.old is not None:
            vnis ^= {spec_of(change.old, "vni")}
        pods = [pod for vni in vnis for pod in self._cache.endpoints.find("network-pods", HOME, SYSTEM, vni)]
        return {key_of(each) for pod in pods for each in _pod_location(pod)}

    async def reconcile(self, key: ObjectKey) -> Result:
        vni, _, droplet = key.name.partition(".")
        existing = self._cache.endpoints_of(owner_of(vni, droplet))
        pod_endpoints = self._cache.endpoints.find("pod-location", HOME, SYSTEM, key.name)
        has_node_ports = bool(self._cache.endpoints.find_keys("network-node-ports", HOME, SYSTEM, vni))
        is_needed = bool(pod_endpoints) and (has_node_ports or self._is_served(pod_endpoints))
        subnet = self._usable_subnet(pod_endpoints)
        kept = existing[:1] if is_needed else []
        if kept and subnet is not None and self._is_going(kept[0]):
            kept = []  # It would keep its subnet from being deleted: claim another address first.
        is_lacking = is_needed and not kept
        if is_lacking and (subnet is None or not await self._claim(int(vni), droplet, subnet)):
            return Result(after_seconds=RETRY_SECONDS)
        for surplus in existing[len(kept) :]:
            await self._cache.delete(VPC_ENDPOINTS, objects.name(surplus), surplus["metadata"]["uid"])
        return DONE

    def _usable_subnet(self, pod_endpoints: list[Object]) -> Object | None:
        """A subnet of these pods that addresses can be claimed in."""
        for name in dict.fromkeys(spec_of(each, "net") for each in pod_endpoints):
            subnet = self._cache.subnet(name)
            if subnet is not None and is_provisioned(subnet) and not is_going(subnet):
                return subnet
        return None

    def _is_going(self, endpoint: Object) -> bool:
        subnet = self._cache.subnet(spec_of(endpoint, "net"))
        return subnet is None or is_going(subnet)

    async def _claim(self, vni: int, droplet: str, subnet: Object) -> bool:
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
            return False
        return True


def _has_ingress(tenant: Object) -> bool:
    return bool(domains_of(tenant)) or is_trusted(tenant)


def owner_of(vni: str, droplet: str) -> str:
    """The value of the owner label of a gateway's endpoint. Hashed, because a label value is shorter than a
    name may be."""
    return f"gateway-{vni}-{hashlib.blake2b(droplet.encode(), digest_size=8).hexdigest()}"


def _pod_location(endpoint: Object) -> Iterable[str]:
    """An index: the network and droplet of a pod's endpoint, as `{vni}.{droplet}`."""
    droplet, vni = spec_of(endpoint, "droplet"), spec_of(endpoint, "vni")
    return (f"{vni}.{droplet}",) if spec_of(endpoint, "type") == SIMPLE and droplet and vni else ()


def _gateway(endpoint: Object) -> Iterable[str]:
    droplet, vni = spec_of(endpoint, "droplet"), spec_of(endpoint, "vni")
    return (f"{vni}.{droplet}",) if spec_of(endpoint, "type") == GATEWAY and droplet and vni else ()


def _tenant_of(endpoint: Object) -> Iterable[str]:
    ref = OwnerRef.parse(spec_of(endpoint, "pod"))
    return (ref.tenant,) if ref is not None and spec_of(endpoint, "type") == SIMPLE else ()


def _vni_of(endpoint: Object, kind: str) -> Iterable[str]:
    vni = spec_of(endpoint, "vni")
    return (vni,) if spec_of(endpoint, "type") == kind and vni else ()
