"""What the server needs to know of the pods that run here; the agent's core implements it."""

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
    """The log of the attempt before, while it is kept."""


class PodHandle(Protocol):
    """One pod of this node, as it is now."""

    @property
    def key(self) -> PodKey: ...

    @property
    def pod(self) -> Object: ...

    @property
    def runtime(self) -> ContainerRuntime: ...

    @property
    def containers(self) -> Mapping[str, ContainerHandle]:
        """By name, of every kind, those that were made at least once."""
        ...

    async def dial(self, port: int) -> socket:
        """A connection to a port of the pod, from inside it where that can be, non-blocking. Raises OSError."""
        ...

    async def reach(self, port: int) -> socket:
        """The same to the pod's own address, as others reach it."""
        ...


class RunningContainers(Protocol):
    def find(self, plane: PlaneId, tenant: TenantId, namespace: str, name: str) -> PodHandle | None: ...

    def all(self) -> Iterable[PodHandle]: ...
