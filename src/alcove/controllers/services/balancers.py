"""Addresses of LoadBalancer services, from ring0's subnets with the label `alcove.io/outside`, whose ranges
are routed to the nodes from outside the cluster. The label's value is the tenant that may use the subnet,
or `true` for all tenants.

Such an address is an endpoint of type `door`; creating it allocates the address. It is released with the
service, or when the service is no longer of type LoadBalancer. Services with a `loadBalancerClass` are
ignored.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.services import types
from alcove.api.kinds.mizar import NODE_PORT
from alcove.api.node_ports import claimed_port
from alcove.api.objects import Object
from alcove.api.pool_shares import PoolUse
from alcove.client.changes import ChangeType, Index, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import SERVICES
from alcove.controllers.controller import ControllerContext
from alcove.controllers.services.claiming import ServiceClaims, owner_name
from alcove.controllers.services.tenant_shares import BALANCERS, check_share
from alcove.network.provider_networks import ProviderNetwork
from alcove.vpc.addressing import AddressPool, EndpointPurpose, pool_in
from alcove.vpc.allocator import AddressAllocator
from alcove.vpc.errors import AddressUnavailable, OutOfRange, VpcError
from alcove.vpc.states import is_going, is_provisioned
from alcove.vpc.vpc_cache import spec_of

OUTSIDE_LABEL = "alcove.io/outside"
EVERYBODY = "true"
_BALANCED = "balanced"
BALANCED: Index = lambda service: (_BALANCED,) if is_ours(service["spec"]) else ()  # noqa: E731
_USER = "outside-user"


def _user_of(subnet: Object) -> Iterable[str]:
    """An index of subnets: the tenant that may use the pool, or EVERYBODY."""
    user = objects.labels(subnet).get(OUTSIDE_LABEL)
    return (user,) if user else ()


def is_ours(spec: Object) -> bool:
    return types.is_balanced(spec) and not spec.get("loadBalancerClass")


class LoadBalancerController(ServiceClaims):
    name = "load-balancer"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, is_ours, NODE_PORT, {_BALANCED: BALANCED})
        self._services.index_tenants(_BALANCED)
        self._cache.subnets.add_index(_USER, _user_of)
        self._allocator = AddressAllocator(self._cache, context.clock)
        self.on(self._cache.endpoints, lambda change: self._service_of_deleted(change, NODE_PORT))
        self.on(self._cache.subnets, self._of_pool)

    def _of_pool(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """All LoadBalancer services, when a pool is added: some may be waiting for an address."""
        if change.kind is ChangeType.DELETED or not is_pool(change.obj):
            return ()
        if change.old is not None and is_pool(change.old):
            return ()
        return self._services.find_keys_of_all(_BALANCED, _BALANCED)

    async def _allocate(self, key: ObjectKey, service: Object) -> None:
        if "deletionTimestamp" in service["metadata"]:
            return  # The addresses are released when it is deleted (`network/orphans.py`).
        existing = self._held(service)
        if not is_ours(service["spec"]):
            await self._release(key, service, existing)
            return
        endpoint = existing[0] if existing else None
        backing, pools = self._backing(key, service), self._pools(key.tenant)
        # Without them it waits: a change of the network or of a pool enqueues the service.
        if endpoint is None and backing is not None and pools:
            try:
                async with self._one_at_a_time(key.tenant):
                    endpoint = await self._claim(key, service, backing, pools)
            except VpcError:
                # The address that the status names is no longer its own: another service may get it.
                await self._update_status(key, service, [])
                raise
        ingress = [{"ip": spec_of(endpoint, "ip"), "ipMode": "VIP"}] if endpoint is not None else []
        await self._update_status(key, service, ingress)

    def _held(self, service: Object) -> list[Object]:
        endpoints = self._claimed(service, NODE_PORT)
        return [each for each in endpoints if spec_of(each, "ip") and not claimed_port(objects.name(each))]

    def _pools(self, tenant: TenantId) -> list[Object]:
        """The pools that the tenant may use, those reserved for it first."""
        subnets = [
            subnet
            for user in (tenant, EVERYBODY)
            for subnet in self._cache.subnets.find(_USER, HOME, SYSTEM, user)
        ]
        return [each for each in subnets if is_pool(each)]

    async def _claim(
        self, key: ObjectKey, service: Object, backing: ProviderNetwork, pools: list[Object]
    ) -> Object:
        requested = service["spec"].get("loadBalancerIP")
        chosen = ipaddress.ip_address(requested) if requested else None
        uid = service["metadata"]["uid"]
        purpose = EndpointPurpose(owner_uid=uid, what=owner_name(key), kind=NODE_PORT)
        messages: list[str] = []
        for pool in pools:
            address_pool: AddressPool = pool_in(pool, backing.vni)
            if address_pool.network.version != backing.network.version:
                messages.append(f'subnet "{address_pool.net}" is IPv{address_pool.network.version}')
                continue
            try:
                self._check_share(key.tenant, pool, address_pool)
                return await self._allocator.claim(address_pool, purpose, chosen)
            except (AddressUnavailable, OutOfRange) as error:
                messages.append(str(error))
        raise AddressUnavailable("; ".join(messages))

    def _check_share(self, tenant: TenantId, pool: Object, address_pool: AddressPool) -> None:
        """Raises ShareExceeded. A pool that is reserved for one tenant has no shares."""
        if tenant != SYSTEM and objects.labels(pool)[OUTSIDE_LABEL] == EVERYBODY:
            free = self._allocator.pool(address_pool).free
            check_share(PoolUse(BALANCERS, self._held_count(address_pool.net, tenant), free), 1)

    async def _release(self, key: ObjectKey, service: Object, existing: list[Object]) -> None:
        if existing:
            await self._update_status(key, service, [])
            await self._release_endpoints(existing)

    async def _update_status(self, key: ObjectKey, service: Object, ingress: list[Object]) -> None:
        status = service.get("status") or {}
        if (objects.get(status, "loadBalancer", "ingress") or []) == ingress:
            return
        new_status = {**status, "loadBalancer": {"ingress": ingress} if ingress else {}}
        await self.client(key).update(
            key.tenant, SERVICES, {**service, "status": new_status}, subresource="status"
        )


def is_pool(subnet: Object) -> bool:
    return OUTSIDE_LABEL in objects.labels(subnet) and is_provisioned(subnet) and not is_going(subnet)
