"""Keeps what is told of a pod true: told when it changes, told again when somebody else has written otherwise."""

from __future__ import annotations

from collections.abc import Callable

from alcove.agent.pods import status
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
        """`addresses` are the node's."""
        self._writer = writer
        self._addresses = addresses
        self._wall = wall
        self._told: Object = {}
        self.is_final = is_final
        """How the pod ended is told: it is never told otherwise."""

    @property
    def has_reported(self) -> bool:
        return bool(self._told)

    def update(self, pod: Object, view: PodRuntimeView, executor: PodExecutor) -> None:
        """How the pod is now, if that is not what was told last."""
        if self.is_final:
            return
        host = status.HostFacts(self._addresses, executor.runtime.handler)
        found = status.status_of(self._as_told(pod), view, host, executor.addresses, self._wall())
        if found != self._told:
            self._told = found
            self._writer.write(found)

    async def finish(self) -> None:
        """Waits until the last of it is written; after that nothing is told any more."""
        await self._writer.flush()
        self.is_final = True

    def listen(self, pod: Object) -> None:
        """The pod as the API has it now."""
        if self._is_contradicted(pod):
            self._told = {}

    def _is_contradicted(self, pod: Object) -> bool:
        """Somebody has written, after this node did, that the pod is otherwise: the node was thought lost."""
        if not self._told or self.is_final or not self._writer.is_idle:
            return False
        if int(pod["metadata"].get("resourceVersion") or 0) <= self._writer.revision:
            return False
        conditions = objects.get(pod, "status", "conditions", default=[])
        there = {each["type"]: each["status"] for each in conditions}
        return any(there.get(each["type"]) != each["status"] for each in self._told["conditions"])

    def _as_told(self, pod: Object) -> Object:
        """The pod with what was told of it last, whether or not the API has shown it yet."""
        before = pod.get("status") or {}
        conditions = {each["type"]: each for each in before.get("conditions") or ()}
        conditions |= {each["type"]: each for each in self._told.get("conditions") or ()}
        return {**pod, "status": {**before, **self._told, "conditions": [*conditions.values()]}}
