"""Keeps the CRDs that ring0 shares with all tenants (label `arktos.futurewei.com/crd-sharing-policy: forced`) on every dedicated plane.

A dedicated API server has a tenant `system` too, whose CRDs it shares with the plane's tenant as the home plane does: they appear there,
hide those of the same name, and only ring0 may change them. So a copy in that tenant is enough. Such copies follow ring0's CRDs:

| ring0's CRD                | the copy                                                                                          |
|----------------------------|---------------------------------------------------------------------------------------------------|
| is shared                  | is made; its spec and labels are kept the same                                                    |
| is not shared any more     | loses the label too: the tenant's objects of it stay, and are not served, as on the home plane      |
| is deleted                 | is deleted, and with it the tenant's objects of it                                                |
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.control_planes import is_dedicated
from alcove.api.kinds.core.plane_sleep import is_stopped
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.resources import CUSTOM_RESOURCE_DEFINITIONS, TENANTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.tenants.controller import PLANE_SECONDS, tenant_key

LABEL, FORCED = "arktos.futurewei.com/crd-sharing-policy", "forced"
SELECTOR = f"{LABEL}={FORCED}"
MANAGER = "alcove-planes"


async def copy(plane: Client, crd: Object) -> None:
    """Gives the plane ring0's CRD, as it is now."""
    metadata = {"name": objects.name(crd), "labels": objects.labels(crd)}
    desired = {"metadata": metadata, "spec": crd["spec"]}
    await plane.apply(SYSTEM, CUSTOM_RESOURCE_DEFINITIONS, desired, manager=MANAGER, force=True)


class SharedDefinitions(Controller):
    """Its keys are Tenants."""

    name = "shared-definitions"
    resource = TENANTS
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._tenants = self.mirror(TENANTS, tenant=SYSTEM, only=HOME)
        self._shared = self.mirror(CUSTOM_RESOURCE_DEFINITIONS, tenant=SYSTEM, labels=SELECTOR, only=HOME)
        self._definitions = self.metadata_cache.crds
        self.on(self._tenants, _of_tenant)
        self.on(self._shared, lambda _change: self._joined())
        self.on(self._definitions, _of_copy)

    def _joined(self) -> Iterable[ObjectKey]:
        return [tenant_key(TenantId(plane)) for plane in self.context.planes.ids() if plane != HOME]

    async def reconcile(self, key: ObjectKey) -> Result:
        tenant = self._tenants.get(key)
        if tenant is None or not is_dedicated(tenant) or is_stopped(tenant):
            return DONE
        plane = PlaneId(key.name)
        if plane not in self.context.planes.ids():
            return Result(after_seconds=PLANE_SECONDS)
        client = self.context.planes.client(plane)
        shared = {objects.name(crd): crd for crd in self._shared.list(HOME, SYSTEM) if not _is_leaving(crd)}
        for crd in shared.values():
            if not await self._is_current(client, crd):
                await copy(client, crd)
        for copied in self._definitions.keys(plane, SYSTEM):
            if copied.name not in shared:
                await self._withdraw(client, copied.name)
        return DONE

    async def _is_current(self, client: Client, crd: Object) -> bool:
        try:
            copied = await client.get(SYSTEM, CUSTOM_RESOURCE_DEFINITIONS, objects.name(crd))
        except NotFound:
            return False
        return copied.get("spec") == crd["spec"] and objects.labels(copied) == objects.labels(crd)

    async def _withdraw(self, client: Client, name: str) -> None:
        """Not by the mirror alone, which may lag behind: with the copy, the tenant's objects of it are deleted."""
        try:
            crd = await self.context.planes.client(HOME).get(SYSTEM, CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            crd = None
        if crd is not None and not _is_leaving(crd):
            if objects.labels(crd).get(LABEL) != FORCED:
                await copy(client, crd)
            return
        try:
            await client.delete(SYSTEM, CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            pass


def _is_leaving(crd: Object) -> bool:
    return "deletionTimestamp" in crd["metadata"]


def _of_tenant(change: ObjectChange) -> Iterable[ObjectKey]:
    return (change.key,) if is_dedicated(change.obj) else ()


def _of_copy(change: ObjectChange) -> Iterable[ObjectKey]:
    """Of a copy that was changed or deleted on its plane."""
    is_copy = change.key.plane != HOME and change.key.tenant == SYSTEM
    return (tenant_key(TenantId(change.key.plane)),) if is_copy else ()
