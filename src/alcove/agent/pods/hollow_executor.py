"""The executor of hollow pods: all states without processes. Their addresses come from the provider's
endpoints."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from alcove.agent.network.attachment import Attachment, NetworkNotReady
from alcove.agent.podkey import PodKey
from alcove.agent.pods import container_labels
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.pods.containers import ContainerRole, DesiredContainer
from alcove.agent.pods.executor import PodSetupError
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, ContainerSpec, ContainerStatus
from alcove.agent.runtime.hollow import ENDS
from alcove.api.objects import Object
from alcove.http.tls_transport import TlsSession

_NO_LOG = Path("/nonexistent")


class HollowAddresses(Protocol):
    async def attach(self, key: PodKey, pod: Object) -> Attachment: ...

    async def detach(self, key: PodKey) -> None: ...


class HollowPodExecutor:
    def __init__(self, key: PodKey, runtime: ContainerRuntime, network: HollowAddresses) -> None:
        self.key = key
        self.runtime = runtime
        self._network = network
        self._containers: set[ContainerId] = set()
        self.addresses: tuple[str, ...] = ()

    async def set_up(self, pod: Object) -> None:
        try:
            self.addresses = (await self._network.attach(self.key, pod)).addresses
        except NetworkNotReady as error:
            raise PodSetupError("FailedCreatePodSandBox", str(error)) from error

    async def refresh(self, pod: Object) -> None:
        return

    async def resize(self, pod: Object, running: Mapping[ContainerId, Object]) -> None:
        return

    async def make_sandbox(self, pod: Object, attempt: int) -> ContainerId:
        id = container_labels.sandbox_id(self.key, attempt)
        await self._make(ContainerMark(self.key, "", attempt), id, id, {})
        return id

    async def fetch(self, pod: Object, container: DesiredContainer, attempt: int) -> None:
        return

    async def make_container(
        self, pod: Object, container: DesiredContainer, attempt: int, sandbox: ContainerStatus
    ) -> ContainerMark:
        mark = ContainerMark(self.key, container.name, attempt, container.spec.get("image", ""))
        # The pod waits for init containers, so hollow ones complete immediately.
        config = {ENDS: container.role is ContainerRole.INIT}
        await self._make(
            mark, container_labels.container_id(self.key, container.name, attempt), sandbox.id, config
        )
        return mark

    async def _make(self, mark: ContainerMark, id: ContainerId, sandbox: ContainerId, config: Object) -> None:
        await self.runtime.create(ContainerSpec(id, sandbox, config, _NO_LOG, mark.labels()))
        self._containers.add(id)

    def termination_message(
        self, container: DesiredContainer, mark: ContainerMark, status: ContainerStatus
    ) -> str:
        return ""

    async def discard(self, id: ContainerId, *, with_log: bool = False) -> None:
        await self.runtime.delete(id)
        self._containers.discard(id)

    async def drop_sandbox(self, id: ContainerId) -> None:
        await self.tear_down()

    async def tear_down(self) -> None:
        for id in sorted(self._containers, reverse=True):
            await self.runtime.delete(id)
        self._containers.clear()
        await self._network.detach(self.key)

    async def remove_logs(self) -> None:
        return

    async def dial(self, port: int) -> socket.socket:
        raise ConnectionRefusedError("the pod is hollow: no process is listening")

    async def dial_host(self, host: str, port: int) -> socket.socket:
        return await self.dial(port)

    async def handshake(
        self, sock: socket.socket, make_context: Callable[[], ssl.SSLContext], server_name: str
    ) -> TlsSession:
        raise ConnectionRefusedError("the pod is hollow: no process is listening")

    async def forward(self, port: int) -> socket.socket:
        return await self.dial(port)
