"""Keeps a pod's status in the API up to date: writes it when it changes, and again if another writer
overwrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alcove.agent.pods import status
from alcove.agent.pods.conditions import TEMPORARY
from alcove.agent.pods.executor import PodExecutor
from alcove.agent.pods.status_writer import StatusWriter
from alcove.agent.pods.view import PodRuntimeView
from alcove.api import objects
from alcove.api.objects import Object


class StatusReporter:
    def __init__(
        self,
        writer: StatusWriter,
        addresses: tuple[str, ...],
        wall: Callable[[], float],
        *,
        is_final: bool,
    ) -> None:
        """`addresses` are the node's; `is_final`: the pod's last status was written already."""
        self._writer = writer
        self._addresses = addresses
        self._wall = wall
        self._reported: Object = {}
        self.is_final = is_final
        """Whether the final status was written; nothing is written after it."""

    @property
    def has_reported(self) -> bool:
        return bool(self._reported)

    def update(self, pod: Object, view: PodRuntimeView, executor: PodExecutor) -> None:
        """Writes the pod's current status, unless it is the one written last."""
        if self.is_final:
            return
        host = status.HostFacts(self._addresses, executor.runtime.handler)
        before = self._as_reported(pod)
        current = status.status_of(before, view, host, executor.addresses, self._wall())
        if current != self._reported:
            self._reported = current
            self._writer.write(_removing(current, before["status"]["conditions"]))

    async def finish(self) -> None:
        """Waits until the last status is written; after that `update` writes nothing."""
        await self._writer.flush()
        self.is_final = True

    def observe(self, pod: Object) -> None:
        """Compares the pod as the API server has it now; the next `update` writes again if it was
        overwritten."""
        if self._is_overwritten(pod):
            self._reported = {}

    def _is_overwritten(self, pod: Object) -> bool:
        """Whether another writer changed conditions after this node did: the node lifecycle controller does
        that to pods of a node that it considers lost."""
        if not self._reported or self.is_final or not self._writer.is_idle:
            return False
        if int(pod["metadata"].get("resourceVersion") or 0) <= self._writer.revision:
            return False
        conditions = objects.get(pod, "status", "conditions", default=[])
        existing = {each["type"]: each["status"] for each in conditions}
        return any(existing.get(each["type"]) != each["status"] for each in self._reported["conditions"])

    def _as_reported(self, pod: Object) -> Object:
        """The pod with the status written last, whether or not the watch has delivered it yet."""
        before = pod.get("status") or {}
        conditions = {each["type"]: each for each in before.get("conditions") or ()}
        conditions |= {each["type"]: each for each in self._reported.get("conditions") or ()}
        return {**pod, "status": {**before, **self._reported, "conditions": [*conditions.values()]}}


def _removing(current: Object, before: Sequence[Object]) -> Object:
    """The patch for this status: temporary conditions that no longer hold are removed, which takes a word of its
    own in a strategic merge patch."""
    remaining = {each["type"] for each in current["conditions"]}
    ended = [each["type"] for each in before if each["type"] in TEMPORARY and each["type"] not in remaining]
    marks = [{"$patch": "delete", "type": kind} for kind in ended]
    return {**current, "conditions": [*current["conditions"], *marks]} if marks else current
