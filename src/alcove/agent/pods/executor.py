"""The interface of pod executors: the worker decides which step comes next, the executor carries it out.

PodOperationError         the operation failed and is retried
├── PodSetupError         the pod's network, volumes or sandbox
└── ContainerStartError   one container: its image, its configuration, its start
PodRejected               the pod may never run on this node
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Protocol

from alcove.agent.podkey import PodKey
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.pods.containers import DesiredContainer
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, ContainerStatus
from alcove.api.objects import Object
from alcove.http.tls_transport import TlsSession


class PodOperationError(Exception):
    def __init__(self, event: str, message: str) -> None:
        super().__init__(message)
        self.event = event
        """The reason of the event to record; empty for no event."""


class PodSetupError(PodOperationError):
    pass


class ContainerStartError(PodOperationError):
    def __init__(self, event: str, message: str, reason: str, retry_seconds: float | None = None) -> None:
        super().__init__(event, message)
        self.retry_seconds = retry_seconds
        """Time until the next attempt; None for the usual back-off."""
        self.reason = reason
        """The reason of the container's `waiting` state in the pod's status."""


class PodRejected(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PodExecutor(Protocol):
    """Every method is safe to repeat, also after an agent was stopped in the middle of it."""

    key: PodKey
    runtime: ContainerRuntime
    """Chosen by `set_up`, or the runtime that has containers of the pod already."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The pod's addresses; empty before `set_up`."""
        ...

    async def set_up(self, pod: Object) -> None:
        """Sets up network, volumes and cgroup. Raises PodSetupError and PodRejected."""
        ...

    async def refresh(self, pod: Object) -> None:
        """Updates the contents of the pod's volumes (config maps, secrets, tokens, downward API)."""
        ...

    async def resize(self, pod: Object, running: Mapping[ContainerId, Object]) -> None:
        """Applies changed resource limits; `running` are the running containers by id. Raises OSError."""
        ...

    async def make_sandbox(self, pod: Object, attempt: int) -> ContainerId:
        """Creates the sandbox without starting it. Raises PodSetupError."""
        ...

    async def fetch(self, pod: Object, container: DesiredContainer, attempt: int) -> None:
        """Pulls a container's image and resolves its variables. This may take long: call it without holding a
        lock or semaphore. Raises ContainerStartError."""
        ...

    async def make_container(
        self, pod: Object, container: DesiredContainer, attempt: int, sandbox: ContainerStatus
    ) -> ContainerMark:
        """Mounts the file system and creates the container without starting it; `fetch` comes first.
        Raises ContainerStartError."""
        ...

    def termination_message(
        self, container: DesiredContainer, mark: ContainerMark, status: ContainerStatus
    ) -> str:
        """The termination message of a container that has exited."""
        ...

    async def discard(self, id: ContainerId, *, with_log: bool = False) -> None:
        """Removes one run of a container, or a sandbox. Its log stays, unless no user can ask for it."""
        ...

    async def drop_sandbox(self, id: ContainerId) -> None:
        """Removes the sandbox, its containers and the pod's network attachment."""
        ...

    async def tear_down(self) -> None:
        """Removes everything of the pod from the node except its logs."""
        ...

    async def remove_logs(self) -> None: ...

    async def dial(self, port: int) -> socket.socket:
        """Connects to the pod's address from within its network. Raises OSError."""
        ...

    async def dial_host(self, host: str, port: int) -> socket.socket:
        """Connects to another host from the node, for ring0's pods only. Raises OSError."""
        ...

    async def handshake(
        self, sock: socket.socket, make_context: Callable[[], ssl.SSLContext], server_name: str
    ) -> TlsSession:
        """A TLS handshake with the pod over a connected socket, as `Handshakes.perform` does it."""
        ...

    async def forward(self, port: int) -> socket.socket:
        """Connects to the pod's loopback where the runtime allows it, else as `dial` does: for port-forward.
        Raises OSError."""
        ...
