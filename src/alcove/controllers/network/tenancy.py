"""Where a tenant's objects are to be looked for, and when it is certain that one is not there."""

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
        """None: on a plane that has not joined. A tenant that is gone had its objects on the home plane."""
        there = self.tenants.get(tenant_key(tenant))
        plane = plane_of(there) if there is not None else HOME
        return plane if plane in self._planes.ids() else None

    async def is_gone(self, key: ObjectKey, resource: Resource, uid: str = "") -> bool:
        """Asks the server whether the object (with this uid) is not there: mirrors may be behind.

        False while that cannot be known.
        """
        tenant = self.tenants.get(tenant_key(key.tenant))
        if tenant is None and key.tenant != SYSTEM:
            return await self._is_tenant_gone(key.tenant)
        plane = self.plane_of(key.tenant)
        if plane is None or plane != key.plane:
            return False
        client = self._planes.client(plane)
        try:
            found = await client.get(key.tenant, resource, key.name, namespace=key.namespace)
        except NotFound:
            return True
        return bool(uid) and objects.get(found, "metadata", "uid") != uid

    async def _is_tenant_gone(self, tenant: TenantId) -> bool:
        try:
            await self._planes.client(HOME).get(SYSTEM, TENANTS, tenant)
        except NotFound:
            return True
        return False
