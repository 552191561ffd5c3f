"""Base class of the controllers that allocate something in ring0 for a service: a cluster IP, an external
address or a node port. Each allocation is an endpoint that names the service and has the VNI of its
network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from alcove.api import objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, Index, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import NETWORKS, SERVICES, VPC_ENDPOINTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.network.networks import JOINED, became_ready
from alcove.controllers.network.tenancy import TenantLookup
from alcove.controllers.services.tenant_shares import pool_and_tenant
from alcove.network.owners import OwnerRef, TenantNetworkId
from alcove.network.provider_networks import ProviderNetwork, ProviderNetworks
from alcove.vpc.errors import VpcError
from alcove.vpc.vpc_cache import VpcCache, spec_of

_POOL = "pool-and-tenant"
FAILED = "FailedProvision"
RETRY_SECONDS = 30.0
"""A failed allocation is retried after this, and when the network changes."""


class ServiceClaims(Controller):
    resource = SERVICES

    def __init__(
        self,
        context: ControllerContext,
        applies: Callable[[Object], bool],
        kind: str,
        indexes: Mapping[str, Index] | None = None,
    ) -> None:
        """For services to whose spec `applies` applies, with claims of this type of endpoints."""
        super().__init__(context)
        self._applies = applies
        self._kind = kind
        self._cache = VpcCache(context.planes, context.clock)
        self._networks = self.mirror(NETWORKS)
        self._services = self.mirror(SERVICES, {"joined": JOINED, **(indexes or {})})
        self._tenancy = TenantLookup(self)
        self._backings = ProviderNetworks(self._cache)
        self._cache.endpoints.add_index(_POOL, pool_and_tenant)
        self._claiming: WeakValueDictionary[TenantId, asyncio.Lock] = WeakValueDictionary()
        self.on(self._networks, self._of_network)
        self.on(self._services, self._affected)

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if service is None:
            return DONE
        try:
            await self._allocate(key, service)
        except VpcError as error:
            self._warn(key, service, str(error))
            return Result(after_seconds=RETRY_SECONDS)
        return DONE

    async def _allocate(self, key: ObjectKey, service: Object) -> None:
        """Allocates what the service needs, and releases what it no longer needs. Raises VpcError."""
        raise NotImplementedError

    async def wait_for_mirrors(self, key: ObjectKey) -> None:
        await super().wait_for_mirrors(key)
        await self._cache.caught_up(self._cache.endpoints, self._cache.vpcs, self._cache.dividers)

    def _of_network(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if not became_ready(change):
            return
        key = change.key
        for service in self._services.find("joined", key.plane, key.tenant, key.name):
            if self._applies(service["spec"]) or self._claimed(service, self._kind):
                yield key.of(objects.name(service), objects.namespace(service))

    def _service_of_deleted(self, change: ObjectChange, kind: str) -> Iterable[ObjectKey]:
        """The service of a deleted endpoint of this type."""
        return self._service_of(change.obj, kind) if change.kind is ChangeType.DELETED else ()

    def _service_of(self, endpoint: Object, kind: str) -> Iterable[ObjectKey]:
        """The service of an endpoint, if it is of this type."""
        if spec_of(endpoint, "type") != kind:
            return ()
        ref = OwnerRef.parse(spec_of(endpoint, "pod"))
        plane = self._tenancy.plane_of(ref.tenant) if ref else None
        return (ObjectKey(plane, ref.tenant, ref.namespace, ref.name),) if ref and plane else ()

    def _affected(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """A service to whose spec `applies` applies, or did before the change. Most services are never enqueued."""
        if change.kind is ChangeType.DELETED:
            return ()
        specs = [obj["spec"] for obj in (change.obj, change.old) if obj is not None]
        is_affected = any(map(self._applies, specs))
        if change.kind is ChangeType.ADDED and not is_affected:
            # It may have been changed while no controller was running: only its claims show that.
            is_affected = bool(self._claimed(change.obj, self._kind))
        return (change.key,) if is_affected else ()

    def _claimed(self, service: Object, kind: str) -> list[Object]:
        endpoints = self._cache.endpoints_of(service["metadata"]["uid"])
        return [each for each in endpoints if spec_of(each, "type") == kind]

    @asynccontextmanager
    async def _one_at_a_time(self, tenant: TenantId) -> AsyncIterator[None]:
        """Claims of one tenant that are counted: each sees those before it."""
        lock = self._claiming.setdefault(tenant, asyncio.Lock())
        async with lock:
            await self._cache.caught_up(self._cache.endpoints)
            yield

    def _held_count(self, pool: str, tenant: TenantId | None = None) -> int:
        """How much of the pool the tenant's services hold, or everybody's."""
        value = pool if tenant is None else f"{pool}/{tenant}"
        return len(self._cache.endpoints.find_keys(_POOL, HOME, SYSTEM, value))

    def _backing(self, key: ObjectKey, service: Object) -> ProviderNetwork | None:
        """None if the network is not provisioned; the service is enqueued when it is."""
        name = network_of(service)
        network = self._networks.get(key.of(name, ""))
        return (
            self.context.options.providers.backing(self._backings, TenantNetworkId(key.tenant, name), network)
            if network is not None
            else None
        )

    async def _release_endpoints(self, endpoints: Iterable[Object]) -> None:
        for each in endpoints:
            await self._cache.delete(VPC_ENDPOINTS, objects.name(each), each["metadata"]["uid"])

    def _warn(self, key: ObjectKey, service: Object, message: str) -> None:
        regarding = {**service, "apiVersion": SERVICES.api_version, "kind": SERVICES.kind}
        self.events.warning(key.plane, regarding, FAILED, message)


def owner_name(key: ObjectKey) -> str:
    """The service as it is named in its endpoints: `acme/default/web`."""
    return str(OwnerRef(key.tenant, key.namespace, key.name))
