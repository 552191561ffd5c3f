"""The namespace controller: empties namespaces that are deleted, and tells what they wait for."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.kinds.core.namespaces import FINALIZER
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import NAMESPACES, Resource
from alcove.controllers import conditions, content_deletion
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


class NamespaceController(Controller):
    name = "namespace"
    resource = NAMESPACES
    workers = 24

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = self.mirror(NAMESPACES)
        self._ending: set[ObjectKey] = set()
        self._reports = DeletionReports()
        self.on(self._namespaces, self._noted)
        self.on_any_object(self._namespace_of)

    def _noted(self, change: ObjectChange) -> Iterable[ObjectKey]:
        is_ending = "deletionTimestamp" in change.obj["metadata"]
        if is_ending and change.kind is not ChangeType.DELETED:
            self._ending.add(change.key)
        else:
            self._ending.discard(change.key)
            self._reports.forget(change.key)
        # When it is gone too: what it would have been looked at for, later, is not waited for any more.
        return (change.key,) if is_ending else ()

    def _namespace_of(self, resource: Resource, change: ObjectChange) -> Iterable[ObjectKey]:
        """Namespaces that are being emptied, when the last of something in them went."""
        if change.kind is not ChangeType.DELETED or not change.key.namespace:
            return
        namespace = change.key.of(change.key.namespace, "")
        if namespace in self._ending and not self.metadata_cache.has(
            namespace.tenant_key, namespace.name, resource
        ):
            yield namespace

    async def fresh(self, key: ObjectKey) -> None:
        await super().fresh(key)
        await self.metadata_cache.caught_up(key.plane, key.tenant)

    async def reconcile(self, key: ObjectKey) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return DONE
        if FINALIZER not in objects.get(namespace, "spec", "finalizers", default=()):
            return DONE  # Only others' finalizers are waited for.
        content = self.metadata_cache.of(key.tenant_key, key.name)
        if not content:
            await self._finish(key, namespace)
            return DONE
        plan = content_deletion.of_namespace(content)
        failures = await carry_out(self.client(key), plan)
        if not failures and plan.is_partial:
            return Result(after_seconds=0.0)
        now = self.clock()
        if wait := self._reports.wait_seconds(key, namespace, now):
            return Result(after_seconds=wait)
        is_known = self.metadata_cache.is_synced(key.plane)
        told = [*content_deletion.conditions("Namespace", content, failures, is_known=is_known), _PARSED]
        await self._report(key, namespace, told, now)
        return Result(after_seconds=LOOK_AGAIN_SECONDS)

    async def _finish(self, key: ObjectKey, namespace: Object) -> None:
        rest = [each for each in namespace["spec"]["finalizers"] if each != FINALIZER]
        namespace["spec"]["finalizers"] = rest
        await self.client(key).update(key.tenant, NAMESPACES, namespace, subresource="finalize")

    async def _report(self, key: ObjectKey, namespace: Object, told: list[Condition], now: float) -> None:
        status = namespace.setdefault("status", {})
        there = status.get("conditions") or []
        status["conditions"] = conditions.updated(there, told, now)
        if status["conditions"] != there:
            await self.client(key).update(key.tenant, NAMESPACES, namespace, subresource="status")
