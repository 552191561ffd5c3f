"""The node's pods as the agent's server uses them: for logs, exec, attach, port-forward and usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from socket import socket

from alcove.agent.podkey import PodKey
from alcove.agent.pods import container_labels
from alcove.agent.pods.node_services import PodDirectories
from alcove.agent.pods.pod_workers import PodWorkers
from alcove.agent.pods.view import ObservedContainer
from alcove.agent.pods.worker import PodWorker
from alcove.agent.runtime.base import ContainerRuntime
from alcove.agent.server.running_containers import ContainerHandle
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import ObjectKey, PlaneId


class RunningPod:
    def __init__(self, worker: PodWorker, directories: PodDirectories) -> None:
        self._worker = worker
        self._directories = directories

    @property
    def key(self) -> PodKey:
        return self._worker.key

    @property
    def pod(self) -> Object:
        return self._worker.pod

    @property
    def runtime(self) -> ContainerRuntime:
        return self._worker.executor.runtime

    @property
    def containers(self) -> Mapping[str, ContainerHandle]:
        observed = self._worker.view.containers
        return {name: self._handle(name, each) for name, each in observed.items() if each.next_attempt}

    def _handle(self, name: str, observed: ObservedContainer) -> ContainerHandle:
        attempt = observed.current.number if observed.current is not None else observed.next_attempt - 1
        previous = self._directories.log(self.key, name, attempt - 1) if attempt else None
        return ContainerHandle(
            id=container_labels.container_id(self.key, name, attempt),
            log_path=self._directories.log(self.key, name, attempt),
            attempt=attempt,
            previous_log_path=previous if previous is not None and previous.exists() else None,
        )

    async def dial(self, port: int) -> socket:
        return await self._worker.executor.forward(port)

    async def reach(self, port: int) -> socket:
        return await self._worker.executor.dial(port)


class RunningPods:
    def __init__(self, workers: PodWorkers, directories: PodDirectories) -> None:
        self._workers = workers
        self._directories = directories

    def find(self, plane: PlaneId, tenant: TenantId, namespace: str, name: str) -> RunningPod | None:
        worker = self._workers.find(ObjectKey(plane, tenant, namespace, name))
        return RunningPod(worker, self._directories) if worker is not None else None

    def all(self) -> Iterable[RunningPod]:
        return [RunningPod(worker, self._directories) for worker in self._workers]
