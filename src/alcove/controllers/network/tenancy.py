"""The plane that a tenant's objects are on, and whether an object certainly does not exist."""

from __future__ import annotations

from alcove.api import objects
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.resources import TENANTS, Resource
from alcove.controllers.controller import Controller
from alcove.controllers.tenants.controller import plane_of, tenant_key


class TenantLookup:
    def __init__(self, controller: Controller) -> None:
        self._planes = controller.context.planes
        self.tenants = controller.mirror(TENANTS)

    def plane_of(self, tenant: TenantId) -> PlaneId | None:
        """None if the tenant's plane has not joined, or it has moved away from a plane that has not left. HOME for a tenant
        that does not exist."""
        tenant_object = self.tenants.get(tenant_key(tenant))
        if tenant_object is None:
            return HOME
        plane = plane_of(tenant_object)
        return plane if plane == self._planes.serving(tenant) else None

    async def is_gone(self, key: ObjectKey, resource: Resource, uid: str = "") -> bool:
        """Reads from the server whether the object (with this uid) no longer exists; mirrors may lag behind.

        False if that cannot be determined.
        """
        tenant = self.tenants.get(tenant_key(key.tenant))
        if tenant is None and key.tenant != SYSTEM:
            return await self._is_tenant_gone(key.tenant)
        plane = self.plane_of(key.tenant)
        if plane is None or plane != key.plane:
            return False
        client = self._planes.client(plane)
        try:
            obj = await client.get(key.tenant, resource, key.name, namespace=key.namespace)
        except NotFound:
            return True
        return bool(uid) and objects.get(obj, "metadata", "uid") != uid

    async def _is_tenant_gone(self, tenant: TenantId) -> bool:
        try:
            await self._planes.client(HOME).get(SYSTEM, TENANTS, tenant)
        except NotFound:
            return True
        return False
