"""The namespace controller: deletes the content of terminating namespaces and reports what remains."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.namespaces import FINALIZER
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import API_SERVICES, NAMESPACES, PODS, TENANTS, Resource
from alcove.controllers import aggregated_content, conditions, content_deletion
from alcove.controllers.aggregated_content import AggregatedContent
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion_executor import DeletionReports, carry_out

_PARSED = Condition(
    "NamespaceDeletionGroupVersionParsingFailure",
    False,
    "ParsedGroupVersions",
    "All legacy kube types successfully parsed",
)
LOOK_AGAIN_SECONDS = 30.0
ASK_AGAIN_SECONDS = 5.0
"""For objects in aggregated APIs, of which no watch tells when they are gone."""


class NamespaceController(Controller):
    name = "namespace"
    resource = NAMESPACES
    workers = 24

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = self.mirror(NAMESPACES)
        self._api_services = self.mirror(API_SERVICES)
        self._tenants = self.mirror(TENANTS, tenant=SYSTEM, only=HOME)
        self._terminating: set[ObjectKey] = set()
        self._reports = DeletionReports()
        self.on(self._namespaces, self._on_namespace)
        self.on_any_object(self._namespace_of)

    def _on_namespace(self, change: ObjectChange) -> Iterable[ObjectKey]:
        is_terminating = "deletionTimestamp" in change.obj["metadata"]
        if is_terminating and change.kind is not ChangeType.DELETED:
            self._terminating.add(change.key)
        else:
            self._terminating.discard(change.key)
            self._reports.forget(change.key)
        # Also when the namespace is deleted: enqueueing its key cancels the delayed reconcile.
        return (change.key,) if is_terminating else ()

    def _namespace_of(self, resource: Resource, change: ObjectChange) -> Iterable[ObjectKey]:
        """The terminating namespace of a deleted object, if that was its last one, or its last pod: others are deleted after pods."""
        if change.kind is not ChangeType.DELETED or not change.key.namespace:
            return
        namespace = change.key.of(change.key.namespace, "")
        if namespace in self._terminating:
            remaining = self.metadata_cache.resources(namespace.tenant_key, namespace.name)
            if not remaining or (resource == PODS and PODS not in remaining):
                yield namespace

    async def wait_for_mirrors(self, key: ObjectKey) -> None:
        await super().wait_for_mirrors(key)
        await self.metadata_cache.caught_up(key.plane, key.tenant)

    async def reconcile(self, key: ObjectKey) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return DONE
        if FINALIZER not in objects.get(namespace, "spec", "finalizers", default=()):
            return DONE  # The content is deleted; only finalizers of other controllers remain.
        content = self.metadata_cache.of(key.tenant_key, key.name)
        aggregated = await self._delete_aggregated(key)
        if not content and (aggregated is None or aggregated.is_empty):
            await self._finish(key, namespace)
            return DONE
        plan = content_deletion.plan_for_namespace(content)
        failures = await carry_out(self.client(key), plan)
        if not failures and plan.is_partial:
            return Result(after_seconds=0.0)
        now = self.clock()
        if wait := self._reports.wait_seconds(key, now):
            return Result(after_seconds=wait)
        is_known = self.metadata_cache.is_synced(key.plane)
        desired = content_deletion.conditions(
            "Namespace", content, failures, is_known=is_known, aggregated=aggregated
        )
        await self._report(key, namespace, [*desired, _PARSED], now)
        return Result(after_seconds=LOOK_AGAIN_SECONDS if content else ASK_AGAIN_SECONDS)

    async def _delete_aggregated(self, key: ObjectKey) -> AggregatedContent | None:
        """None if there are no aggregated APIs that could have content."""
        registered = self._api_services.list(key.plane, key.tenant)
        if not registered:
            return None
        tenant = self._tenants.get(ObjectKey(HOME, SYSTEM, "", key.tenant))
        if tenant is not None and "deletionTimestamp" in tenant["metadata"]:
            return None
        return await aggregated_content.delete(self.client(key), key, registered)

    async def _finish(self, key: ObjectKey, namespace: Object) -> None:
        remaining = [each for each in namespace["spec"]["finalizers"] if each != FINALIZER]
        namespace["spec"]["finalizers"] = remaining
        await self.client(key).update(key.tenant, NAMESPACES, namespace, subresource="finalize")

    async def _report(self, key: ObjectKey, namespace: Object, desired: list[Condition], now: float) -> None:
        status = namespace.setdefault("status", {})
        existing = status.get("conditions") or []
        status["conditions"] = conditions.updated(existing, desired, now)
        if status["conditions"] != existing:
            await self.client(key).update(key.tenant, NAMESPACES, namespace, subresource="status")
