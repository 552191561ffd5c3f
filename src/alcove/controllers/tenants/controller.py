"""The tenant controller: creates the initial objects of new tenants, deletes the content of terminating ones.

The initial objects are created once, which the condition `Initialized` records. Objects that the tenant's
administrator deletes after that are not created again.

A dedicated tenant has a Tenant object on the home plane and one on its dedicated plane, which holds the
tenant's other objects. The controller creates and deletes the one on the dedicated plane along with the one
at home; the latter is removed only when the former is. A foreign tenant has one at home only.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import meta, objects
from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.backups import must_save_before_delete
from alcove.api.kinds.core.control_planes import MOVING, has_own_plane, is_foreign
from alcove.api.kinds.core.tenants import FINALIZER
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey, PlaneId, TenantKey
from alcove.client.resources import PODS, TENANTS, Resource
from alcove.controllers import conditions, content_deletion
from alcove.controllers.concurrency import gather_all
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion_executor import REPORT_EVERY_SECONDS, DeletionReports, carry_out
from alcove.controllers.tenants.defaults import InitialObject, first_objects
from alcove.controllers.tenants.template import NetworkTemplate

PLANE_SECONDS = 1.0
PLANE_DELETION_SECONDS_MAX = 600.0
"""How long a dedicated plane may take to delete the objects of its deleted tenant."""
"""How often to check whether the plane of a dedicated tenant has joined."""
INITIALIZED = "Initialized"
_FIRST_OBJECTS = Condition(INITIALIZED, True, "FirstObjectsMade", "The tenant's initial objects were created")
_FOREIGN_OBJECTS = Condition(
    INITIALIZED, True, "PlaneJoined", "The tenant's objects are on its foreign plane"
)
_PLANE_JOINED = Condition("Joined", True, "Joined", "The controllers have joined the tenant's foreign plane")
_PLANE_MISSING = Condition(
    "Joined", False, "NotJoined", "The controllers have not joined a foreign plane; see `alcove plane join`"
)


def tenant_key(tenant: TenantId) -> ObjectKey:
    return ObjectKey(HOME, SYSTEM, "", tenant)


def plane_of(tenant: Object) -> PlaneId:
    """The plane of a tenant's objects. A dedicated or foreign plane has the tenant's name."""
    return PlaneId(objects.name(tenant)) if has_own_plane(tenant) else HOME


def _copied(tenant: Object) -> Object:
    """What the Tenant on a dedicated plane has of the one at home, as a patch: whose certificates are not accepted, and
    whether its API server has to tell when users sent requests."""
    seconds = objects.get(tenant, "spec", "sleep", "afterInactivity", default=None)
    revoked = objects.get(tenant, "spec", "revokedCertificates", default=[])
    return {"spec": {"revokedCertificates": revoked, "sleep": {"afterInactivity": seconds}}}


def _is_initialized(tenant: Object) -> bool:
    """Whether a tenant that is not being deleted needs nothing more, and follows no plane."""
    return not has_own_plane(tenant) and conditions.is_true(tenant, INITIALIZED)


class TenantController(Controller):
    name = "tenant"
    resource = TENANTS
    workers = 24

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._template = NetworkTemplate.load(context.options.default_network_template)
        self._tenants = self.mirror(TENANTS)
        self._terminating: set[TenantId] = set()
        self._reports = DeletionReports()
        self.on(self._tenants, self._of_tenant)
        self.on_any_object(self._of_object)

    def _of_tenant(self, change: ObjectChange) -> Iterable[ObjectKey]:
        tenant = TenantId(change.key.name)
        # Not only by `reconcile`, which is not called for tenants of other shards.
        is_gone = change.kind is ChangeType.DELETED
        is_terminating = not is_gone and "deletionTimestamp" in change.obj["metadata"]
        (self._terminating.add if is_terminating else self._terminating.discard)(tenant)
        if not is_gone and not is_terminating and change.key.plane == HOME and _is_initialized(change.obj):
            return ()
        return {change.key, tenant_key(tenant)}

    def _of_object(self, resource: Resource, change: ObjectChange) -> Iterable[ObjectKey]:
        """The terminating tenant of a deleted object, if that allows the next step of its deletion."""
        key = change.key
        if change.kind is not ChangeType.DELETED or key.tenant not in self._terminating:
            return
        if self.metadata_cache.has(key.tenant_key, key.namespace, resource):
            return
        remaining = self.metadata_cache.resources(key.tenant_key, "")
        # Without pods, finalizers of the tenant's programs need no longer be waited for.
        if resource == PODS or content_deletion.ends_stage(resource, remaining):
            yield ObjectKey(key.plane, SYSTEM, "", key.tenant)

    async def wait_for_mirrors(self, key: ObjectKey) -> None:
        await super().wait_for_mirrors(key)
        tenant = TenantId(key.name)
        if tenant in self._terminating:
            await self.metadata_cache.caught_up(key.plane, tenant)

    async def reconcile(self, key: ObjectKey) -> Result:
        tenant = self._tenants.get(key)
        if tenant is None:
            self._terminating.discard(TenantId(key.name))
            self._reports.forget(key)
            return DONE
        is_terminating = "deletionTimestamp" in tenant["metadata"]
        if key.plane == HOME and is_foreign(tenant):
            return await self._follow_foreign(key, tenant)
        if key.plane == HOME and must_save_before_delete(tenant):
            return DONE  # The status of its backup enqueues it again.
        if key.plane == HOME and plane_of(tenant) != HOME:
            return await (
                self._delete_on_plane(tenant) if is_terminating else self._create_on_plane(key, tenant)
            )
        if is_terminating:
            return await self._delete_content(key, tenant)
        if not conditions.is_true(tenant, INITIALIZED):
            await self._initialize(key, tenant)
        return DONE

    # Dedicated planes

    async def _create_on_plane(self, key: ObjectKey, tenant: Object) -> Result:
        plane = plane_of(tenant)
        if plane not in self.context.planes.ids():
            return Result(after_seconds=PLANE_SECONDS)
        existing = self._tenants.get(ObjectKey(plane, SYSTEM, "", key.name))
        if existing is None:
            new_tenant = {"metadata": {"name": key.name}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
            await self._create(self.context.planes.client(plane), SYSTEM, InitialObject(TENANTS, new_tenant))
            return DONE
        change = _copied(tenant)
        if change != _copied(existing):
            await self.context.planes.client(plane).patch(SYSTEM, TENANTS, key.name, change)
        if conditions.is_true(existing, INITIALIZED):
            await self._report(key, tenant, [_FIRST_OBJECTS])
        return DONE

    async def _delete_on_plane(self, tenant: Object) -> Result:
        """A plane that has left does not come back, so the tenant is finished without it; so is one whose plane has
        not emptied itself in time: its API server may be hung, or say that there is something for as long as it likes.
        Whatever it has goes with its volume and its pods."""
        if FINALIZER not in objects.get(tenant, "spec", "finalizers", default=()):
            return DONE
        if conditions.is_true(tenant, MOVING):
            return Result(after_seconds=PLANE_SECONDS)  # Something of it may still be at home.
        plane, name = plane_of(tenant), objects.name(tenant)
        since = meta.parse_time(tenant["metadata"]["deletionTimestamp"])
        if saved_at := objects.get(tenant, "status", "backup", "lastSuccessTime", default=""):
            since = max(since, meta.parse_time(saved_at))  # Nothing was deleted before.
        remaining_seconds = since + PLANE_DELETION_SECONDS_MAX - self.clock()
        if remaining_seconds <= 0:
            await self._finish(HOME, tenant)
            return DONE
        if plane in self.context.planes.awaited and plane not in self.context.planes.ids():
            return Result(after_seconds=PLANE_SECONDS)
        existing = self._tenants.get(ObjectKey(plane, SYSTEM, "", name))
        if existing is None:
            await self._finish(HOME, tenant)
        elif "deletionTimestamp" not in existing["metadata"]:
            try:
                await self.context.planes.client(plane).delete(SYSTEM, TENANTS, name)
            except NotFound:
                pass  # The watch event of the deletion enqueues the tenant again.
        return Result(after_seconds=remaining_seconds)

    # Foreign planes

    async def _follow_foreign(self, key: ObjectKey, tenant: Object) -> Result:
        """Reports whether the plane has joined. What is on it stays when the tenant is deleted: it is not ring0's. What
        ring0 has made for it, its networks and addresses, goes with the tenant."""
        if "deletionTimestamp" in tenant["metadata"]:
            if FINALIZER in objects.get(tenant, "spec", "finalizers", default=()):
                await self._finish(HOME, tenant)
            return DONE
        has_joined = plane_of(tenant) in self.context.planes.ids()
        desired = [_PLANE_JOINED if has_joined else _PLANE_MISSING]
        if has_joined:
            desired.append(_FOREIGN_OBJECTS)
        await self._report(key, tenant, desired)
        return Result(after_seconds=PLANE_SECONDS)

    # Initialization

    async def _initialize(self, key: ObjectKey, tenant: Object) -> None:
        name, client = TenantId(key.name), self.client(key)
        first = first_objects(name, self._template.render(name))
        await gather_all(self._create(client, name, each) for each in first)
        await self._report(key, tenant, [_FIRST_OBJECTS])

    async def _create(self, client: Client, tenant: TenantId, first: InitialObject) -> None:
        try:
            await client.create(tenant, first.resource, first.obj)
        except AlreadyExists:
            pass  # Created before an interruption, or by another writer.

    # Deletion

    async def _delete_content(self, key: ObjectKey, tenant: Object) -> Result:
        if FINALIZER not in objects.get(tenant, "spec", "finalizers", default=()):
            return DONE  # The content is deleted; only finalizers of other controllers remain.
        scope = TenantKey(key.plane, TenantId(key.name))
        now = self.clock()
        content = self.metadata_cache.of(scope)
        plan = content_deletion.plan_for_tenant(content, now)
        if plan.is_empty:
            await self._finish(key.plane, tenant)
            return DONE
        failures = await carry_out(self.client(key), plan)
        if not failures and plan.is_partial:
            return Result(after_seconds=0.0)
        if wait := self._reports.wait_seconds(key, now):
            return Result(after_seconds=wait)
        desired = content_deletion.conditions(
            "Tenant", content, failures, is_known=self.metadata_cache.is_synced(scope.plane)
        )
        await self._report(key, tenant, desired)
        return Result(
            after_seconds=REPORT_EVERY_SECONDS if failures else content_deletion.next_check_seconds(plan, now)
        )

    async def _finish(self, plane: PlaneId, tenant: Object) -> None:
        remaining = [each for each in tenant["spec"]["finalizers"] if each != FINALIZER]
        tenant["spec"]["finalizers"] = remaining
        await self.context.planes.client(plane).update(SYSTEM, TENANTS, tenant, subresource="finalize")

    async def _report(self, key: ObjectKey, tenant: Object, desired: list[Condition]) -> None:
        status = tenant.setdefault("status", {})
        existing = status.get("conditions") or []
        status["conditions"] = conditions.updated(existing, desired, self.clock())
        if status["conditions"] != existing:
            await self.client(key).update(SYSTEM, TENANTS, tenant, subresource="status")
