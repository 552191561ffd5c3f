"""The pod garbage collector: removes pods of deleted nodes, and finished pods beyond a limit.

| pod                                                                   | removed after       |
|-----------------------------------------------------------------------|---------------------|
| bound to a node that no longer exists                                 | `NODE_GONE_SECONDS` |
| terminating, but never bound to a node                                | immediately         |
| terminating, on a node with the out-of-service taint                  | immediately         |
| finished, if its tenant has more than `FINISHED_MAX` such; oldest first | immediately       |
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import meta, objects
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import NODES, PODS
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_if_unchanged
from alcove.controllers.nodes.pods_by_node import index_by_node, on_node

NODE_GONE_SECONDS = 40.0
FINISHED_MAX = 12_500
"""Per tenant. Kubernetes has the same limit per cluster."""
DELETED_AT_ONCE_MAX = 200
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_FINISHED = ("Succeeded", "Failed")

FINISHED = "finished"


def _finished(pod: Object) -> Iterable[str]:
    return ["yes"] if objects.get(pod, "status", "phase") in _FINISHED else []


class PodGarbageCollector(Controller):
    name = "pod-garbage-collector"
    resource = PODS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = self.mirror(PODS, {FINISHED: _finished})
        index_by_node(self._pods)
        self._nodes = self.nodes()
        self._absent_since: dict[str, float] = {}
        """Nodes that do not exist although pods are bound to them, and since when."""
        self.on(self._pods, self._pod)
        self.on(self._nodes, self._pods_of)

    def _pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        pod = change.obj
        if change.kind is ChangeType.DELETED:
            self._forget_node(objects.get(pod, "spec", "nodeName", default=""))
            return
        if "deletionTimestamp" in pod["metadata"] or not self._has_node(pod):
            yield change.key
        if change.kind is ChangeType.ADDED or list(_finished(pod)):
            yield _tenant_key(change.key)

    def _pods_of(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is not ChangeType.DELETED and not _is_out_of_service(change.obj):
            self._absent_since.pop(change.key.name, None)
            return
        yield from on_node(self._pods, change.key.name)

    def _forget_node(self, name: str) -> None:
        """Drops the time of an absent node that no pod is bound to any more."""
        if name in self._absent_since and next(on_node(self._pods, name), None) is None:
            del self._absent_since[name]

    def _has_node(self, pod: Object) -> bool:
        name = objects.get(pod, "spec", "nodeName")
        return not name or ObjectKey(HOME, SYSTEM, "", name) in self._nodes

    async def reconcile(self, key: ObjectKey) -> Result:
        if not key.name:
            return await self._limit(key)
        pod = self._pods.get(key)
        if pod is None:
            return DONE
        name = objects.get(pod, "spec", "nodeName", default="")
        is_terminating = "deletionTimestamp" in pod["metadata"]
        if not name:
            if is_terminating:
                await self._remove(key, pod)
            return DONE
        node = self._nodes.get(ObjectKey(HOME, SYSTEM, "", name))
        if node is not None:
            if is_terminating and _is_out_of_service(node):
                await self._fail_and_remove(key, pod, "the node is out of service")
            return DONE
        return await self._without_node(key, pod, name)

    async def _without_node(self, key: ObjectKey, pod: Object, node: str) -> Result:
        now = self.clock()
        since = self._absent_since.setdefault(node, now)
        if now - since < NODE_GONE_SECONDS:
            return Result(after_seconds=NODE_GONE_SECONDS - (now - since))
        try:
            await self.context.planes.client(HOME).get(SYSTEM, NODES, node)
        except NotFound:
            await self._fail_and_remove(key, pod, "node no longer exists")
        return DONE

    async def _fail_and_remove(self, key: ObjectKey, pod: Object, message: str) -> None:
        """Sets phase Failed before the deletion, so that controllers such as Job count the failure."""
        if objects.get(pod, "status", "phase") not in _FINISHED:
            status = pod.setdefault("status", {})
            status["phase"] = "Failed"
            target = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": f"PodGC: {message}",
                "lastTransitionTime": meta.format_time(self.clock()),
            }
            others = [each for each in status.get("conditions") or () if each["type"] != "DisruptionTarget"]
            status["conditions"] = [*others, target]
            try:
                pod = await self.client(key).update(key.tenant, PODS, pod, subresource="status")
            except NotFound:
                return
        await self._remove(key, pod)

    async def _remove(self, key: ObjectKey, pod: Object) -> None:
        await delete_if_unchanged(self.client(key), PODS, key, pod["metadata"], grace_seconds=0)

    async def _limit(self, key: ObjectKey) -> Result:
        """Deletes the oldest finished pods of a tenant beyond FINISHED_MAX."""
        finished = self._pods.find_keys(FINISHED, key.plane, key.tenant, "yes")
        if len(finished) <= FINISHED_MAX:
            return DONE
        pods = [pod for each in finished if (pod := self._pods.get(each)) is not None]
        pods.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))
        excess = pods[: len(pods) - FINISHED_MAX][:DELETED_AT_ONCE_MAX]
        await gather_all(self._remove(_key_of(key, pod), pod) for pod in excess)
        return Result(after_seconds=1.0)


def _key_of(key: ObjectKey, pod: Object) -> ObjectKey:
    return key.of(objects.name(pod), objects.namespace(pod))


def _tenant_key(key: ObjectKey) -> ObjectKey:
    """The key that stands for all finished pods of a tenant."""
    return key.of("", "")


def _is_out_of_service(node: Object) -> bool:
    taints = objects.get(node, "spec", "taints", default=())
    return any(taint.get("key") == OUT_OF_SERVICE for taint in taints)
