"""The DaemonSet controller: one pod per eligible node. Nodes are always ring0's, on the home plane."""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api.errors import ApiError, NotFound
from alcove.api.objects import Object, get, labels
from alcove.client.changes import controller_uid
from alcove.client.keys import ObjectKey
from alcove.client.resources import CONTROLLER_REVISIONS, DAEMON_SETS, PODS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, ServerRefusal
from alcove.controllers.daemonsets import fitting
from alcove.controllers.daemonsets import plan as plans
from alcove.controllers.daemonsets.placements import Placements
from alcove.controllers.terminating import is_namespace_or_tenant_missing, is_terminating
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
        nodes = self.nodes()
        revisions = self.mirror(CONTROLLER_REVISIONS, {"controller": controller_uid})
        self._history = history.History(DAEMON_SETS, revisions)
        self._selectors = SelectorIndex(self._sets)
        self._placements = Placements(self._sets, nodes, self._pods)
        self._limits = TenantRequestLimits()
        self.on(self._sets)
        self.on(self._pods, owner_or_selectors(DAEMON_SETS, self._selectors))
        self.on(nodes, self._placements.concerned)

    async def reconcile(self, key: ObjectKey) -> Result:
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            return DONE
        client = self.client(key)
        owner = controller_refs.ControllerRefManager(
            client, key, DAEMON_SETS, daemon_set, self._selectors.get(key)
        )
        owned = await owner.claim(self._pods)
        if "deletionTimestamp" in daemon_set["metadata"]:
            return DONE
        history_revisions = self._history.known(key, daemon_set)
        update = await self._history.update(client, key, daemon_set, history_revisions)
        revision = history.hash_of(update)
        spec = get(daemon_set, "spec", "template", "spec", default={})
        fits = {name: fitting.fit(spec, node) for name, node in self._placements.nodes.items()}
        now = self.clock()
        next_plan = plans.plan(daemon_set, owned, fits, revision, now)
        await self._write(key, daemon_set, plans.status(daemon_set, owned, fits, revision, now))
        await self._delete(key, daemon_set, next_plan.delete[:BURST_MAX])
        await self._create(key, daemon_set, next_plan.create[:BURST_MAX], revision)
        used = {f"{key.name}-{labels(pod).get(plans.REVISION, '')}" for pod in owned}
        await self._history.forget(client, key, daemon_set, used | {update["metadata"]["name"]})
        if max(len(next_plan.create), len(next_plan.delete)) > BURST_MAX:
            return Result(after_seconds=0)
        min_ready = daemon_set["spec"].get("minReadySeconds", 0)
        return Result(pods.next_available_seconds(owned, min_ready, now))

    async def _create(self, key: ObjectKey, daemon_set: Object, nodes: Sequence[str], revision: str) -> None:
        template = pod_of(daemon_set["spec"]["template"], controller_refs.reference(DAEMON_SETS, daemon_set))
        template["metadata"]["generateName"] = f"{key.name}-"
        template["metadata"]["labels"] = {
            **(template["metadata"].get("labels") or {}),
            plans.REVISION: revision,
            "pod-template-generation": str(daemon_set["metadata"].get("generation", 1)),
        }

        async def create(node: str) -> Object:
            pod = {**template, "spec": fitting.pinned(template["spec"], node)}
            created = await self.client(key).create(key.tenant, PODS, pod, namespace=key.namespace)
            message = f"Created pod: {created['metadata']['name']}"
            self.events.normal(key.plane, daemon_set, "SuccessfulCreate", message)
            return created

        result = await slow_start(self._limits.of(key.tenant_key), nodes, create)
        error = result.error
        if error is None:
            return
        if not isinstance(error, ApiError) or is_namespace_or_tenant_missing(error) or is_terminating(error):
            raise error
        self.events.warning(key.plane, daemon_set, "FailedCreate", f"Error creating: {error.message}")
        raise ServerRefusal(error.message) from error

    async def _delete(self, key: ObjectKey, daemon_set: Object, surplus: Sequence[Object]) -> None:
        async def delete(pod: Object) -> Object:
            metadata = pod["metadata"]
            try:
                await self.client(key).delete(
                    key.tenant, PODS, metadata["name"], namespace=key.namespace, uid=metadata["uid"]
                )
            except NotFound:
                return pod
            self.events.normal(key.plane, daemon_set, "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
            return pod

        result = await slow_start(self._limits.of(key.tenant_key), surplus, delete)
        if result.error is not None:
            raise result.error

    async def _write(self, key: ObjectKey, daemon_set: Object, status: Object) -> None:
        if status != daemon_set.get("status"):
            daemon_set["status"] = status
            await self.client(key).update(key.tenant, DAEMON_SETS, daemon_set, subresource="status")
