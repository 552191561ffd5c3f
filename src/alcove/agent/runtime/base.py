"""The interface of container runtimes, and what can go wrong with one.

A container belongs to a sandbox; a sandbox is itself a container that holds what the pod's containers
share. Ids are chosen by the caller, one per attempt to run a container, and never used again: whoever
starts anew after a crash finds everything by `list` and makes nothing twice. Containers outlive the agent.

RuntimeFailure
├── NoSuchContainer   never made, or deleted
├── AlreadyThere      a container of that id was made before
├── CreateFailed      the runtime could not make or start it; the message is the runtime's
├── SpecRefused       the pod asks for what it may not have, or what makes no sense
└── NoSuchHandler     this node has not proven that handler
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NewType, Protocol

from msgspec import Struct

from alcove.agent.cgroups import CgroupUsage
from alcove.api.objects import Object

ContainerId = NewType("ContainerId", str)
HandlerName = NewType("HandlerName", str)


class RuntimeFailure(Exception):
    pass


class NoSuchContainer(RuntimeFailure):
    pass


class ContainerExists(RuntimeFailure):
    pass


class CreateFailed(RuntimeFailure):
    pass


class SpecRefused(RuntimeFailure):
    pass


class NoSuchHandler(RuntimeFailure):
    pass


class Isolation(Enum):
    """What stands between a container and the node's kernel, the weakest first."""

    NONE = "none"
    """Nothing runs at all."""
    NAMESPACES = "namespaces"
    """The kernel is shared."""
    SANDBOX = "sandbox"
    """A kernel of its own."""


class ContainerPhase(Enum):
    BROKEN = "broken"
    """It never came to be: whoever was making it was stopped. To be deleted."""
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


class ContainerSpec(Struct, frozen=True):
    id: ContainerId
    """Of lower case letters, digits, dots and dashes."""
    sandbox: ContainerId
    """The sandbox it belongs to; a sandbox belongs to itself."""
    config: Object
    """What to run, as the OCI runtime specification has it; `root.path` is absolute."""
    log_path: Path
    labels: Mapping[str, str] = {}
    """Given back by `list` and `status`: whatever the caller wants to know after it was stopped."""
    stdin: bool = False
    stdin_once: bool = False
    """Its input ends when the first who attached to it leaves."""

    @property
    def is_sandbox(self) -> bool:
        return self.id == self.sandbox


class ContainerStatus(Struct, frozen=True):
    id: ContainerId
    sandbox: ContainerId
    phase: ContainerPhase
    labels: Mapping[str, str]
    created_at: float
    """Times are seconds since the epoch; zero: not yet."""
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    """128 and the signal's number if it was ended by one; 255 if nobody knows."""
    oom_killed: bool = False
    process: int = 0
    """The host's id of its first process, while it lives; zero where there is none to see."""

    @property
    def is_sandbox(self) -> bool:
        return self.id == self.sandbox


class ExecSession(Struct, frozen=True):
    """A process to run inside a container. Streams are descriptors of the caller's; None: nothing."""

    args: Sequence[str]
    tty: bool = False
    """All streams are one terminal: the same descriptor, of its lower end; or see `on_terminal`."""
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    on_terminal: Callable[[int], None] | None = None
    """The process' own terminal: called with its upper end, which is the caller's from then on, also to set its
    size. The streams then only carry what the runtime has to say, if it cannot start the process."""


class ContainerRuntime(Protocol):
    handler: HandlerName
    isolation: Isolation

    async def create(self, spec: ContainerSpec) -> None:
        """The container, ready to be started. A sandbox comes before its containers."""
        ...

    async def start(self, container: ContainerId) -> None:
        """Idempotent; a container that has exited is not started again."""
        ...

    async def status(self, container: ContainerId) -> ContainerStatus: ...

    async def list(self) -> Sequence[ContainerStatus]:
        """Everything that was made and not deleted, also by those before us."""
        ...

    async def wait(self, container: ContainerId) -> ContainerStatus:
        """Returns when it has exited, at once if it already has."""
        ...

    async def kill(self, container: ContainerId, signal: int) -> None:
        """To its first process. Nothing happens to one that has exited or never started."""
        ...

    async def delete(self, container: ContainerId) -> None:
        """Whatever it does, it is over and nothing of it is left but its log. Idempotent. Sandboxes go last."""
        ...

    async def exec(self, container: ContainerId, process: ExecSession) -> int:
        """The process' exit code. Cancelled, it ends the process."""
        ...

    async def stats(self, container: ContainerId) -> CgroupUsage: ...

    async def reopen_log(self, container: ContainerId) -> None:
        """Its log was renamed: go on in a new file at the old path."""
        ...
