"""Taint-based eviction: deletes pods from nodes with NoExecute taints that they do not, or no longer,
tolerate.

Covers every tenant on every plane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.errors import NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import PODS
from alcove.controllers.controller import DONE, ControllerContext, Result
from alcove.controllers.nodes.pods_by_node import PodsOnNodes, on_node
from alcove.controllers.nodes.toleration_deadlines import NEVER, NoExecuteTaint, eviction_time, read
from alcove.controllers.workloads import pods


class TaintEviction(PodsOnNodes):
    name = "taint-eviction"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._taints: dict[str, tuple[NoExecuteTaint, ...]] = {}
        """NoExecute taints by node name, for nodes that have any."""
        self._pending: set[str] = set()
        """Uids of pods with a pending eviction; bounded by the number of pods on tainted nodes."""

    def _of_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        name = change.key.name
        before = self._taints.pop(name, ())
        now = () if change.kind is ChangeType.DELETED else read(change.obj, before, self.clock())
        if now:
            self._taints[name] = now
        return on_node(self._pods, name) if now != before else ()

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is ChangeType.DELETED:
            self._pending.discard(change.obj["metadata"]["uid"])
        elif self._taints_of(change.obj):
            yield change.key

    def _taints_of(self, pod: Object) -> Sequence[NoExecuteTaint]:
        return self._taints.get(get(pod, "spec", "nodeName", default=""), ())

    async def reconcile(self, key: ObjectKey) -> Result:
        pod = self._pods.get(key)
        if pod is None or pods.is_terminating(pod):
            return DONE
        evict_at = eviction_time(pod, self._taints_of(pod))
        if evict_at == NEVER:
            self._cancel(key, pod)
            return DONE
        remaining_seconds = evict_at - self.clock()
        if remaining_seconds > 0:
            self._pending.add(pod["metadata"]["uid"])
            return Result(after_seconds=remaining_seconds)
        await self._evict(key, pod)
        return DONE

    def _cancel(self, key: ObjectKey, pod: Object) -> None:
        if pod["metadata"]["uid"] in self._pending:
            self._pending.discard(pod["metadata"]["uid"])
            message = f"Cancelling deletion of Pod {key.namespace}/{key.name}"
            self.events.normal(key.plane, pod, "TaintManagerEviction", message)

    async def _evict(self, key: ObjectKey, pod: Object) -> None:
        """Sets the DisruptionTarget condition before the deletion, for controllers such as Job."""
        message = f"Marking for deletion Pod {key.namespace}/{key.name}"
        self.events.normal(key.plane, pod, "TaintManagerEviction", message)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        uid = pod["metadata"]["uid"]
        try:
            await self._set_condition(key, {"uid": uid}, condition)
            await self.client(key).delete(key.tenant, PODS, key.name, namespace=key.namespace, uid=uid)
        except NotFound:
            pass
