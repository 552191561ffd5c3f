"""Releases the addresses of pods and services that no longer exist, however they were deleted."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.mizar import OWNER_LABEL, SCALED
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import PODS, SERVICES, VPC_ENDPOINTS, Resource
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.network.tenancy import TenantLookup
from alcove.network.owners import OwnerRef
from alcove.vpc.addressing import EVERYWHERE
from alcove.vpc.vpc_cache import VpcCache, key_of, spec_of

UNKNOWN_SECONDS = 60.0
"""While a tenant's API server is unreachable, its pods are unknown: the check is repeated after this."""


class OrphanController(Controller):
    name = "address"
    resource = VPC_ENDPOINTS
    workers = 32

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self.reads += cache.mirrors
        self._pods = self.mirror(PODS)
        self._services = self.mirror(SERVICES)
        self._tenancy = TenantLookup(self)
        self.on(cache.endpoints, lambda change: (change.key,) if change.kind is ChangeType.ADDED else ())
        self.on(self._pods, self._of_owner)
        self.on(self._services, self._of_owner)

    def tenant_of(self, key: ObjectKey) -> TenantId:
        """The tenant of the pod or service that has the address."""
        endpoint = self._cache.endpoints.get(key)
        ref = OwnerRef.parse(spec_of(endpoint, "pod")) if endpoint else None
        return ref.tenant if ref is not None else SYSTEM

    def _of_owner(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is not ChangeType.DELETED:
            return ()
        endpoints = self._cache.endpoints_of(change.obj["metadata"]["uid"])
        return [key_of(objects.name(each)) for each in endpoints]

    async def reconcile(self, key: ObjectKey) -> Result:
        endpoint = self._cache.endpoints.get(key)
        owner_uid = objects.labels(endpoint).get(OWNER_LABEL, "") if endpoint else ""
        ref = OwnerRef.parse(spec_of(endpoint, "pod")) if endpoint else None
        if endpoint is None or ref is None or not owner_uid:
            return DONE
        if spec_of(endpoint, "type") == SCALED:
            # Addresses of services were claimed in ring0 before they were in the tenant.
            await self._cache.delete(VPC_ENDPOINTS, key.name, endpoint["metadata"]["uid"])
            return DONE
        plane = self._tenancy.plane_of(ref.tenant)
        mirror, resource = self._kind(endpoint)
        if plane is None or not mirror.is_synced(plane):
            return Result(after_seconds=UNKNOWN_SECONDS)
        owner_key = ObjectKey(plane, ref.tenant, ref.namespace, ref.name)
        owner = mirror.get(owner_key)
        if owner is not None and owner["metadata"]["uid"] == owner_uid:
            return DONE
        if await self._tenancy.is_gone(owner_key, resource, owner_uid):
            await self._cache.delete(VPC_ENDPOINTS, key.name, endpoint["metadata"]["uid"])
        return DONE

    def _kind(self, endpoint: Object) -> tuple[Mirror, Resource]:
        if spec_of(endpoint, "type") in EVERYWHERE:
            return self._services, SERVICES
        return self._pods, PODS
