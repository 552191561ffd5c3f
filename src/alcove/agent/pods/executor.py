"""Where one pod is run: the interface between the worker, which knows when, and what knows how.

Trouble            what is asked cannot be done now; it is tried again
├── PodTrouble        the pod's network, volumes or sandbox
└── ContainerTrouble  one container: its image, its configuration, its start
PodRefused         the pod may not run on this node, ever
"""

import socket
from collections.abc import Mapping
from typing import Protocol

from alcove.agent.podkey import PodKey
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.pods.containers import DesiredContainer
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, ContainerStatus
from alcove.api.objects import Object


class PodOperationError(Exception):
    def __init__(
        self, event: str, message: str, reason: str = "ContainerCreating", retry_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds
        """None: soon, then less often."""
        self.event = event
        """The reason of the event that tells it; empty: nothing is told."""
        self.reason = reason
        """Why containers wait, in the pod's status."""


class PodSetupError(PodOperationError):
    pass


class ContainerStartError(PodOperationError):
    pass


class PodRejected(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PodExecutor(Protocol):
    """Everything may be repeated, and begun where another was stopped."""

    key: PodKey
    runtime: ContainerRuntime
    """Chosen by `set_up`, or found with what ran before."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The pod's; none before `set_up`."""
        ...

    async def set_up(self, pod: Object) -> None:
        """Network, volumes, control group. PodTrouble, PodRefused."""
        ...

    async def refresh(self, pod: Object) -> None:
        """The pod changed, or time has passed: what its volumes show is brought up to date."""
        ...

    async def resize(self, pod: Object, running: Mapping[ContainerId, Object]) -> None:
        """What the pod's containers may use changed; `running` are those that run, by id. OSError."""
        ...

    async def make_sandbox(self, pod: Object, attempt: int) -> ContainerId:
        """Made, not started. PodTrouble."""
        ...

    async def fetch(self, pod: Object, container: DesiredContainer, attempt: int) -> None:
        """What a container needs from elsewhere: its image, what its variables say. This may take long, and
        nobody else may have to wait for it. ContainerTrouble."""
        ...

    async def make_container(
        self, pod: Object, container: DesiredContainer, attempt: int, sandbox: ContainerStatus
    ) -> ContainerMark:
        """After `fetch`: its file system mounted; made, not started. ContainerTrouble."""
        ...

    def termination_message(
        self, container: DesiredContainer, mark: ContainerMark, status: ContainerStatus
    ) -> str:
        """What a container that ended says about it."""
        ...

    async def discard(self, id: ContainerId) -> None:
        """A run of a container: nothing is left but its log."""
        ...

    async def drop_sandbox(self, id: ContainerId) -> None:
        """The sandbox, what is left of its containers, and the network that it used up."""
        ...

    async def dismantle(self) -> None:
        """Nothing is left but logs."""
        ...

    async def forget(self) -> None:
        """Nor those."""
        ...

    async def dial(self, port: int) -> socket.socket:
        """A connection to the pod, as its network reaches it. OSError."""
        ...

    async def forward(self, port: int) -> socket.socket:
        """A connection to the pod from within it where that is possible: to its loopback, as port-forward means it.
        OSError."""
        ...
