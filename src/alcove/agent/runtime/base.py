"""The interface of container runtimes, and its errors.

A container belongs to a sandbox; a sandbox is itself a container, which holds the namespaces that the pod's
containers share. Ids are chosen by the caller, one per attempt to run a container, and never used again: an
agent that restarts finds everything by `list` and creates nothing twice. Containers outlive the agent.

RuntimeFailure
├── NoSuchContainer   never created, or deleted
├── ContainerExists   a container of that id was created before
├── CreateFailed      the runtime failed to create or start it; the message is the runtime's
├── SpecRefused       the pod requests something forbidden or invalid
└── NoSuchHandler     this node has not proven that handler
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NewType, Protocol

from msgspec import Struct

from alcove.agent.cgroups import CgroupLimits, CgroupUsage
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
    """How a container is isolated from the node's kernel, the weakest first."""

    NONE = "none"
    """Hollow: no processes."""
    NAMESPACES = "namespaces"
    """The containers share the node's kernel."""
    SANDBOX = "sandbox"
    """The pod has its own kernel (gVisor)."""


class ContainerPhase(Enum):
    BROKEN = "broken"
    """Not completely created, because the agent was stopped meanwhile. To be deleted."""
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


class ContainerSpec(Struct, frozen=True):
    id: ContainerId
    """Consists of lower case letters, digits, dots and dashes."""
    sandbox: ContainerId
    """The sandbox it belongs to; a sandbox belongs to itself."""
    config: Object
    """The OCI runtime configuration; `root.path` is absolute."""
    log_path: Path
    labels: Mapping[str, str] = {}
    """Returned by `list` and `status`, also after the agent was restarted."""
    stdin: bool = False
    stdin_once: bool = False
    """Its stdin is closed when the first attached client disconnects."""

    @property
    def is_sandbox(self) -> bool:
        return self.id == self.sandbox


class ContainerStatus(Struct, frozen=True):
    id: ContainerId
    sandbox: ContainerId
    phase: ContainerPhase
    labels: Mapping[str, str]
    created_at: float
    """Times are in epoch seconds; 0 if not yet."""
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    """128 plus the signal's number if a signal killed it; 255 if the exit code is unknown."""
    oom_killed: bool = False
    process: int = 0
    """The host's pid of its first process while it runs; 0 if it has none on the host."""

    @property
    def is_sandbox(self) -> bool:
        return self.id == self.sandbox


class ExecSession(Struct, frozen=True):
    """A process to run inside a container. Streams are the caller's descriptors; None for /dev/null."""

    args: Sequence[str]
    tty: bool = False
    """All streams are the same descriptor, a terminal's slave side; or see `on_terminal`."""
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    on_terminal: Callable[[int], None] | None = None
    """Called with the master side of the process' terminal, which the callee owns from then on, also to
    resize it. The streams then only carry the runtime's error messages if it fails to start the process."""


class ContainerRuntime(Protocol):
    handler: HandlerName
    isolation: Isolation

    async def create(self, spec: ContainerSpec) -> None:
        """Creates the container without starting it. A sandbox is created before its containers."""
        ...

    async def start(self, container: ContainerId) -> None:
        """Idempotent. A container that has exited is not started again."""
        ...

    async def show_limits(self, container: ContainerId, limits: CgroupLimits) -> None:
        """Shows changed limits to the processes of a running container, where those of its cgroup on the host are
        not visible to them."""
        ...

    async def status(self, container: ContainerId) -> ContainerStatus: ...

    async def list(self) -> Sequence[ContainerStatus]:
        """All containers that were created and not deleted, also by earlier agent processes."""
        ...

    async def wait(self, container: ContainerId) -> ContainerStatus:
        """Returns when the container has exited, immediately if it already has."""
        ...

    async def kill(self, container: ContainerId, signal: int) -> None:
        """Sends the signal to its first process. Does nothing if it has exited or never started."""
        ...

    async def delete(self, container: ContainerId) -> None:
        """Kills and removes the container; its log stays. Idempotent. Delete a sandbox after its
        containers."""
        ...

    async def exec(self, container: ContainerId, process: ExecSession) -> int:
        """Runs the process and returns its exit code. Kills the process when cancelled."""
        ...

    async def stats(self, container: ContainerId) -> CgroupUsage: ...

    async def reopen_log(self, container: ContainerId) -> None:
        """Continues the log in a new file at the same path, after the old one was renamed."""
        ...
