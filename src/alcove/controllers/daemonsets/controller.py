"""The shell around a daemon set's plan. Nodes are ring0's, on the home plane, whoever owns the set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.errors import ApiError, Forbidden, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object, get, labels
from alcove.client.changes import ChangeType, ObjectChange, controller_uid
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import CONTROLLER_REVISIONS, DAEMON_SETS, PODS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, ServerRefusal
from alcove.controllers.daemonsets import fitting
from alcove.controllers.daemonsets import plan as plans
from alcove.controllers.terminating import is_place_missing, is_terminating
from alcove.controllers.workloads import controller_refs, history, pods
from alcove.controllers.workloads.creation import BURST_MAX, TenantRequestLimits, slow_start
from alcove.controllers.workloads.selector_index import SelectorIndex, owner_or_selectors
from alcove.controllers.workloads.templates import pod_of


class DaemonSetController(Controller):
    name = "daemonset"
    resource = DAEMON_SETS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._sets = self.mirror(DAEMON_SETS)
        self._pods = self.mirror(PODS, controller_refs.OWNING)
        self._nodes = self.nodes()
        revisions = self.mirror(CONTROLLER_REVISIONS, {"controller": controller_uid})
        self._history = history.History(DAEMON_SETS, revisions)
        self._selectors = SelectorIndex(self._sets)
        self._lanes = TenantRequestLimits()
        self.on(self._sets)
        self.on(self._pods, owner_or_selectors(DAEMON_SETS, self._selectors))
        self.on(self._nodes, self._all_sets)

    def _all_sets(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """A node that came, left, or is another for schedulers; not one that just said that it lives."""
        old = change.old
        if change.kind is ChangeType.UPDATED and old is not None and _placing(old) == _placing(change.obj):
            return ()
        return self._sets.everything()

    async def reconcile(self, key: ObjectKey) -> Result:
        desired = self._sets.get(key)
        if desired is None:
            return DONE
        client = self.client(key)
        owner = controller_refs.ControllerRefManager(
            client, key, DAEMON_SETS, desired, self._selectors.get(key)
        )
        owned = await owner.claim(self._pods)
        if "deletionTimestamp" in desired["metadata"]:
            return DONE
        known = self._history.known(key, desired)
        update = await self._history.update(client, key, desired, known)
        revision = history.hash_of(update)
        nodes = self._nodes.list(HOME, SYSTEM)
        spec = get(desired, "spec", "template", "spec", default={})
        fits = {node["metadata"]["name"]: fitting.fit(spec, node) for node in nodes}
        now = self.clock()
        next_ = plans.plan(desired, owned, fits, revision, now)
        await self._write(key, desired, plans.status(desired, owned, fits, revision, now))
        await self._delete(key, desired, next_.delete[:BURST_MAX])
        await self._create(key, desired, next_.create[:BURST_MAX], revision)
        used = {f"{key.name}-{labels(pod).get(plans.REVISION, '')}" for pod in owned}
        await self._history.forget(client, key, desired, used | {update["metadata"]["name"]})
        if max(len(next_.create), len(next_.delete)) > BURST_MAX:
            return Result(after_seconds=0)
        min_ready = desired["spec"].get("minReadySeconds", 0)
        return Result(pods.next_available_seconds(owned, min_ready, now))

    async def _create(self, key: ObjectKey, desired: Object, nodes: Sequence[str], revision: str) -> None:
        made = pod_of(desired["spec"]["template"], controller_refs.reference(DAEMON_SETS, desired))
        made["metadata"]["generateName"] = f"{key.name}-"
        made["metadata"]["labels"] = {
            **(made["metadata"].get("labels") or {}),
            plans.REVISION: revision,
            "pod-template-generation": str(desired["metadata"].get("generation", 1)),
        }

        async def create(node: str) -> Object:
            pod = {**made, "spec": fitting.pinned(made["spec"], node)}
            created = await self.client(key).create(key.tenant, PODS, pod, namespace=key.namespace)
            message = f"Created pod: {created['metadata']['name']}"
            self.events.normal(key.plane, desired, "SuccessfulCreate", message)
            return created

        done = await slow_start(self._lanes.of(key.tenant_key), nodes, create)
        error = done.error
        if error is None or (isinstance(error, Forbidden) and is_terminating(error)):
            return
        if not isinstance(error, ApiError) or is_place_missing(error):
            raise error
        self.events.warning(key.plane, desired, "FailedCreate", f"Error creating: {error.message}")
        raise ServerRefusal(error.message) from error

    async def _delete(self, key: ObjectKey, desired: Object, surplus: Sequence[Object]) -> None:
        async def delete(pod: Object) -> Object:
            metadata = pod["metadata"]
            try:
                await self.client(key).delete(
                    key.tenant, PODS, metadata["name"], namespace=key.namespace, uid=metadata["uid"]
                )
            except NotFound:
                return pod
            self.events.normal(key.plane, desired, "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
            return pod

        deleted = await slow_start(self._lanes.of(key.tenant_key), surplus, delete)
        if deleted.error is not None:
            raise deleted.error

    async def _write(self, key: ObjectKey, desired: Object, status: Object) -> None:
        if status != desired.get("status"):
            desired["status"] = status
            await self.client(key).update(key.tenant, DAEMON_SETS, desired, subresource="status")


def _placing(node: Object) -> tuple[Object, object]:
    """What of a node decides who may run on it."""
    return labels(node), get(node, "spec", "taints")
