"""Sets pods on lost nodes to not ready, so that services stop sending requests to them.

Only for nodes whose Ready condition is Unknown. A node that reports itself as not ready still updates its
pods, and a lost node does so again when it is back.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.controllers.controller import DONE, ControllerContext, Result
from alcove.controllers.nodes import health
from alcove.controllers.nodes.pods_by_node import PodsOnNodes, on_node
from alcove.controllers.workloads import pods


class UnreadyPods(PodsOnNodes):
    name = "unready-pods"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._lost: set[str] = set()

    def _of_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        name = change.key.name
        if change.kind is ChangeType.DELETED or health.status_of(change.obj, "Ready") != "Unknown":
            self._lost.discard(name)
        elif name not in self._lost:
            self._lost.add(name)
            yield from on_node(self._pods, name)

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is not ChangeType.DELETED and self._must_be_unready(change.obj):
            yield change.key

    def _must_be_unready(self, pod: Object) -> bool:
        return get(pod, "spec", "nodeName") in self._lost and pods.is_ready(pod)

    async def reconcile(self, key: ObjectKey) -> Result:
        pod = self._pods.get(key)
        if pod is None or not self._must_be_unready(pod):
            return DONE
        condition = {"type": "Ready", "status": "False", "reason": "NodeNotReady", "message": ""}
        metadata = {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]}
        try:
            await self._set_condition(key, metadata, condition)
        except NotFound:
            return DONE
        self.events.warning(key.plane, pod, "NodeNotReady", "Node is not ready")
        return DONE
