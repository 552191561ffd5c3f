"""The observed state of a pod on its node: with the spec, the input of the plan and of the pod's status.

Times that decide when to act are of the monotonic clock; times that go into the status are of the wall clock.
"""

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct, field

from alcove.agent.pods.resizing import ResizeState
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerStatus
from alcove.agent.runtime.users import User


class WaitingState(Struct, frozen=True):
    """Why a container is not running, as in `state.waiting` of its status."""

    reason: str
    message: str = ""


class ContainerRun(Struct, frozen=True):
    """One run of a container."""

    number: int
    status: ContainerStatus
    image: str = ""
    image_id: str = ""
    reason: str = ""
    """Why it exited, if the runtime cannot know; else empty."""
    message: str = ""
    """Its termination message."""
    user: User | None = None
    """The user of its first process; None if that is not known."""

    @property
    def is_running(self) -> bool:
        return self.status.phase is ContainerPhase.RUNNING

    @property
    def is_over(self) -> bool:
        return self.status.phase is ContainerPhase.EXITED


class ObservedContainer(Struct):
    """A container over all its runs."""

    current: ContainerRun | None = None
    previous: ContainerRun | None = None
    stale: Sequence[ContainerId] = ()
    """Earlier runs, and runs that were never completely created: to be removed."""
    waiting: WaitingState | None = None
    """What keeps it from being started, as last reported."""
    next_attempt: int = 0
    retry_at: float = 0.0
    crashes: int = 0
    """Exits in a row, each after less than backoff.HEALTHY_SECONDS."""
    failures: int = 0
    """Attempts in a row that failed before the container was created."""
    is_started: bool = False
    """It is running, and its startup probe, if it has one, succeeded."""
    is_ready: bool = False
    kill_message: str = ""
    """Why the current run has to be stopped and restarted; empty if it need not."""
    failed_probe: str = ""
    """The kind of probe (`liveness` or `startup`) that `kill_message` is about; empty if it is about none."""

    @property
    def is_running(self) -> bool:
        return self.current is not None and self.current.is_running

    @property
    def is_over(self) -> bool:
        return self.current is not None and self.current.is_over

    @property
    def restarts(self) -> int:
        return max(self.next_attempt - 1, 0)

    def forget_probes(self) -> None:
        """No probe has succeeded or failed in the current run."""
        self.is_started = self.is_ready = False
        self.kill_message = self.failed_probe = ""

    def begin(self, run: ContainerRun) -> None:
        """Makes `run` the current one, and the run before it the previous one."""
        if self.current is not None and self.current.number != run.number:
            self.reset()
        self.current = run
        self.next_attempt = max(self.next_attempt, run.number + 1)

    def reset(self) -> None:
        """The current run becomes the previous one, and the container has to be started again."""
        if self.current is not None:
            if self.previous is not None and self.previous.status.created_at:
                self.stale = (*self.stale, self.previous.status.id)
            self.previous, self.current = self.current, None


class TerminationCause(Enum):
    DELETED = "deleted"
    """The pod's object is being deleted, or was removed from the API."""
    FAILED = "failed"
    """The node terminates the pod: evicted, past its deadline, or rejected."""
    FINISHED = "finished"
    """The pod's containers have exited and are not restarted."""


class PodTermination(Struct, frozen=True):
    """Why and how the whole pod is terminated."""

    cause: TerminationCause
    grace_seconds: float = 0.0
    reason: str = ""
    message: str = ""


class PodRuntimeView(Struct):
    containers: dict[str, ObservedContainer] = field(default_factory=dict)
    sandbox: ContainerStatus | None = None
    next_sandbox: int = 0
    is_set_up: bool = False
    """Network, volumes and cgroup were set up by this process."""
    retry_at: float = 0.0
    """Neither setup nor sandbox is tried again before this time."""
    failures: int = 0
    end: PodTermination | None = None
    is_clean: bool = False
    """Everything of the pod has been removed from the node."""
    resize: ResizeState = field(default_factory=ResizeState)

    def observed(self, name: str) -> ObservedContainer:
        return self.containers.setdefault(name, ObservedContainer())

    @property
    def has_running(self) -> bool:
        return any(each.is_running for each in self.containers.values())
