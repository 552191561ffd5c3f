"""The interface through which the server finds the pods of this node; implemented by the agent."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from socket import socket
from typing import Protocol

from msgspec import Struct

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId, ContainerRuntime
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import PlaneId


class ContainerHandle(Struct, frozen=True):
    """The last attempt to run a container of a pod."""

    id: ContainerId
    log_path: Path
    attempt: int = 0
    previous_log_path: Path | None = None
    """The log of the previous attempt, while it exists."""


class PodHandle(Protocol):
    """The current state of one pod of this node."""

    @property
    def key(self) -> PodKey: ...

    @property
    def pod(self) -> Object: ...

    @property
    def runtime(self) -> ContainerRuntime: ...

    @property
    def containers(self) -> Mapping[str, ContainerHandle]:
        """Containers of every kind that were created at least once, by name."""
        ...

    async def dial(self, port: int) -> socket:
        """A non-blocking connection to a port of the pod, from inside its network namespace where possible.
        Raises OSError."""
        ...

    async def reach(self, port: int) -> socket:
        """A non-blocking connection to a port at the pod's IP address, as other pods connect. Raises
        OSError."""
        ...


class RunningContainers(Protocol):
    def find(self, plane: PlaneId, tenant: TenantId, namespace: str, name: str) -> PodHandle | None: ...

    def all(self) -> Iterable[PodHandle]: ...
