"""The node's pods for its server: logs, exec, attach, port-forward, usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from socket import socket

from alcove.agent.podkey import PodKey
from alcove.agent.pods import marks
from alcove.agent.pods.roster import Roster
from alcove.agent.pods.view import Seen
from alcove.agent.pods.worker import Worker
from alcove.agent.pods.workshop import Folders
from alcove.agent.runtime.base import Runtime
from alcove.agent.server.running import ContainerHandle
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import ObjectKey, PlaneId


class Handle:
    def __init__(self, worker: Worker, folders: Folders) -> None:
        self._worker = worker
        self._folders = folders

    @property
    def key(self) -> PodKey:
        return self._worker.key

    @property
    def pod(self) -> Object:
        return self._worker.pod

    @property
    def runtime(self) -> Runtime:
        return self._worker.site.runtime

    @property
    def containers(self) -> Mapping[str, ContainerHandle]:
        seen = self._worker.view.containers
        return {name: self._handle(name, each) for name, each in seen.items() if each.next_attempt}

    def _handle(self, name: str, seen: Seen) -> ContainerHandle:
        attempt = seen.current.number if seen.current is not None else seen.next_attempt - 1
        before = self._folders.log(self.key, name, attempt - 1) if attempt else None
        return ContainerHandle(
            id=marks.container_id(self.key, name, attempt),
            log_path=self._folders.log(self.key, name, attempt),
            attempt=attempt,
            previous_log_path=before if before is not None and before.exists() else None,
        )

    async def dial(self, port: int) -> socket:
        return await self._worker.site.forward(port)

    async def reach(self, port: int) -> socket:
        return await self._worker.site.dial(port)


class RunningPods:
    def __init__(self, roster: Roster, folders: Folders) -> None:
        self._roster = roster
        self._folders = folders

    def find(self, plane: PlaneId, tenant: TenantId, namespace: str, name: str) -> Handle | None:
        worker = self._roster.find(ObjectKey(plane, tenant, namespace, name))
        return Handle(worker, self._folders) if worker is not None else None

    def all(self) -> Iterable[Handle]:
        return [Handle(worker, self._folders) for worker in self._roster]
