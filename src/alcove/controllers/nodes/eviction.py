"""Taint-based eviction: deletes pods from nodes with NoExecute taints that they do not, or no longer,
tolerate.

Covers every tenant on every plane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.errors import NotFound
from alcove.api.objects import Object, get
from alcove.api.tolerations import NO_EXECUTE, NodeTaint, read_tolerations
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import PODS
from alcove.controllers.controller import DONE, ControllerContext, Result
from alcove.controllers.nodes.pods_by_node import PodsOnNodes, on_node
from alcove.controllers.workloads import pods

NEVER = float("inf")
IMMEDIATELY = 0.0


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


class NoExecuteTaint(Struct, frozen=True):
    key: str
    value: str
    since: float

    @property
    def taint(self) -> NodeTaint:
        return NodeTaint(self.key, self.value, NO_EXECUTE)


def read(node: Object, before: Sequence[NoExecuteTaint], now: float) -> tuple[NoExecuteTaint, ...]:
    """The node's NoExecute taints, each with the time it was added, or first observed if it has none."""
    seen = {(each.key, each.value): each.since for each in before}
    return tuple(
        NoExecuteTaint(key, value, _since(each, seen.get((key, value), now)))
        for each in get(node, "spec", "taints", default=())
        if each.get("effect") == NO_EXECUTE
        for key, value in [(each.get("key") or "", each.get("value") or "")]
    )


def _since(taint: Object, default: float) -> float:
    try:
        return meta.parse_time(taint["timeAdded"]) if taint.get("timeAdded") else default
    except ValueError:
        return default


def eviction_time(pod: Object, taints: Sequence[NoExecuteTaint]) -> float:
    """When the pod must be evicted, in epoch seconds. For each taint the first toleration that covers it
    counts; without one the pod is evicted immediately."""
    tolerations: Sequence[Object] = get(pod, "spec", "tolerations", default=())
    return min((_eviction_time_for(tolerations, taint) for taint in taints), default=NEVER)


def _eviction_time_for(tolerations: Sequence[Object], taint: NoExecuteTaint) -> float:
    for each, toleration in zip(tolerations, read_tolerations(tolerations), strict=True):
        if toleration.covers(taint.taint):
            seconds = each.get("tolerationSeconds")
            if seconds is None:
                return NEVER
            return taint.since + seconds if seconds > 0 else IMMEDIATELY
    return IMMEDIATELY
