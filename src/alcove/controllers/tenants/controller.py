"""The tenant controller: gives new tenants their first objects, empties those that are deleted.

A tenant gets its first objects once; the condition `Initialized` says that it has. What its
administrator deletes after that stays deleted.

A dedicated tenant is a Tenant at home and one on its own plane, where its objects are. The one at home
makes the other, and ends it: each gets and loses what is on its own plane, and home waits for the plane.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.tenants import FINALIZER
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey, PlaneId, TenantKey
from alcove.client.resources import TENANTS, Resource
from alcove.controllers import conditions, content_deletion
from alcove.controllers.concurrency import together
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion_executor import REPORT_EVERY_SECONDS, DeletionReports, carry_out
from alcove.controllers.tenants.defaults import InitialObject, first_objects
from alcove.controllers.tenants.template import NetworkTemplate

PLANE_SECONDS = 1.0
"""How often it is looked whether a plane has joined that a tenant waits for."""
INITIALIZED = "Initialized"
_FIRST_OBJECTS = Condition(INITIALIZED, True, "FirstObjectsMade", "The tenant has its first objects")


def tenant_key(tenant: TenantId) -> ObjectKey:
    return ObjectKey(HOME, SYSTEM, "", tenant)


def plane_of(tenant: Object) -> PlaneId:
    """Where a tenant's objects are, as the Tenant at home says: a dedicated one has a plane of its own name."""
    mode = objects.get(tenant, "spec", "controlPlane", "mode")
    return PlaneId(objects.name(tenant)) if mode == "Dedicated" else HOME


class TenantController(Controller):
    name = "tenant"
    resource = TENANTS
    workers = 24

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._template = NetworkTemplate.load(context.options.default_network_template)
        self._tenants = self.mirror(TENANTS)
        self._ending: set[TenantId] = set()
        self._reports = DeletionReports()
        self.on(self._tenants, self._noted)
        self.on_any_object(self._tenant_of)

    def _noted(self, change: ObjectChange) -> Iterable[ObjectKey]:
        tenant = TenantId(change.key.name)
        is_ending = "deletionTimestamp" in change.obj["metadata"]
        (self._ending.add if is_ending else self._ending.discard)(tenant)
        return {change.key, tenant_key(tenant)}

    def _tenant_of(self, resource: Resource, change: ObjectChange) -> Iterable[ObjectKey]:
        """Tenants that are being emptied, when the last of something went."""
        key = change.key
        is_last = change.kind is ChangeType.DELETED and key.tenant in self._ending
        if is_last and not self.metadata_cache.has(key.tenant_key, key.namespace, resource):
            yield ObjectKey(key.plane, SYSTEM, "", key.tenant)

    async def fresh(self, key: ObjectKey) -> None:
        await super().fresh(key)
        tenant = TenantId(key.name)
        if tenant in self._ending:
            await self.metadata_cache.caught_up(key.plane, tenant)

    async def reconcile(self, key: ObjectKey) -> Result:
        tenant = self._tenants.get(key)
        if tenant is None:
            self._ending.discard(TenantId(key.name))
            self._reports.forget(key)
            return DONE
        is_ending = "deletionTimestamp" in tenant["metadata"]
        if key.plane == HOME and plane_of(tenant) != HOME:
            return await (self._end_there(tenant) if is_ending else self._begin_there(key, tenant))
        if is_ending:
            return await self._empty(key, tenant)
        if not conditions.is_true(tenant, INITIALIZED):
            await self._initialize(key, tenant)
        return DONE

    # On a plane of its own

    async def _begin_there(self, key: ObjectKey, tenant: Object) -> Result:
        plane = plane_of(tenant)
        if plane not in self.context.planes.ids():
            return Result(after_seconds=PLANE_SECONDS)
        there = self._tenants.get(ObjectKey(plane, SYSTEM, "", key.name))
        if there is None:
            made = {"metadata": {"name": key.name}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
            await self._make(self.context.planes.client(plane), SYSTEM, InitialObject(TENANTS, made))
        elif conditions.is_true(there, INITIALIZED):
            await self._report(key, tenant, [_FIRST_OBJECTS])
        return DONE

    async def _end_there(self, tenant: Object) -> Result:
        """A plane that has left has left for good: there is nothing left of it."""
        plane, name = plane_of(tenant), objects.name(tenant)
        if plane in self.context.planes.awaited and plane not in self.context.planes.ids():
            return Result(after_seconds=PLANE_SECONDS)
        there = self._tenants.get(ObjectKey(plane, SYSTEM, "", name))
        if there is None:
            await self._finish(HOME, tenant)
        elif "deletionTimestamp" not in there["metadata"]:
            try:
                await self.context.planes.client(plane).delete(SYSTEM, TENANTS, name)
            except NotFound:
                pass  # The watch will tell.
        return DONE

    # Coming

    async def _initialize(self, key: ObjectKey, tenant: Object) -> None:
        name, client = TenantId(key.name), self.client(key)
        first = first_objects(name, self._template.render(name))
        await together(self._make(client, name, each) for each in first)
        await self._report(key, tenant, [_FIRST_OBJECTS])

    async def _make(self, client: Client, tenant: TenantId, first: InitialObject) -> None:
        try:
            await client.create(tenant, first.resource, first.obj)
        except AlreadyExists:
            pass  # Made before we were interrupted, or by somebody else.

    # Going

    async def _empty(self, key: ObjectKey, tenant: Object) -> Result:
        if FINALIZER not in objects.get(tenant, "spec", "finalizers", default=()):
            return DONE  # Only others' finalizers are waited for.
        space = TenantKey(key.plane, TenantId(key.name))
        now = self.clock()
        content = self.metadata_cache.of(space)
        plan = content_deletion.of_tenant(content, now)
        if plan.is_empty:
            await self._finish(key.plane, tenant)
            return DONE
        failures = await carry_out(self.client(key), plan)
        if not failures and plan.is_partial:
            return Result(after_seconds=0.0)
        if wait := self._reports.wait_seconds(key, tenant, now):
            return Result(after_seconds=wait)
        told = content_deletion.conditions(
            "Tenant", content, failures, is_known=self.metadata_cache.is_synced(space.plane)
        )
        await self._report(key, tenant, told)
        return Result(
            after_seconds=REPORT_EVERY_SECONDS if failures else content_deletion.next_look_seconds(plan, now)
        )

    async def _finish(self, plane: PlaneId, tenant: Object) -> None:
        rest = [each for each in tenant["spec"]["finalizers"] if each != FINALIZER]
        tenant["spec"]["finalizers"] = rest
        await self.context.planes.client(plane).update(SYSTEM, TENANTS, tenant, subresource="finalize")

    async def _report(self, key: ObjectKey, tenant: Object, told: list[Condition]) -> None:
        status = tenant.setdefault("status", {})
        there = status.get("conditions") or []
        status["conditions"] = conditions.updated(there, told, self.clock())
        if status["conditions"] != there:
            await self.client(key).update(SYSTEM, TENANTS, tenant, subresource="status")
