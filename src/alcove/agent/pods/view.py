"""What a node knows of a pod that it runs: the observed half of what the plan is made from.

Times that decide when to act are of the monotonic clock; times that are told are of the wall clock.
"""

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct, field

from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerStatus
from alcove.api.objects import Object


class WaitingState(Struct, frozen=True):
    """Why a container does not run."""

    reason: str
    message: str = ""


class ContainerRun(Struct, frozen=True):
    """One run of a container."""

    number: int
    status: ContainerStatus
    image: str = ""
    image_id: str = ""
    reason: str = ""
    """Why it ended, where the runtime cannot know."""
    message: str = ""
    """Its last words."""

    @property
    def is_running(self) -> bool:
        return self.status.phase is ContainerPhase.RUNNING

    @property
    def is_over(self) -> bool:
        return self.status.phase is ContainerPhase.EXITED


class ObservedContainer(Struct):
    """A container, through all its runs."""

    current: ContainerRun | None = None
    previous: ContainerRun | None = None
    stale: Sequence[ContainerId] = ()
    """Runs before those, and what never came to be: to be removed."""
    waiting: WaitingState | None = None
    """What keeps it from being started, as it was told last."""
    next_attempt: int = 0
    retry_at: float = 0.0
    crashes: int = 0
    """Ends in a row, none of them after a long time."""
    failures: int = 0
    """Attempts in a row that did not even become a run."""
    is_started: bool = False
    """It runs and its startup probe, if it has one, succeeded."""
    is_ready: bool = False
    doom: str = ""
    """Why this run of it has to end; empty: it need not."""

    @property
    def is_running(self) -> bool:
        return self.current is not None and self.current.is_running

    @property
    def is_over(self) -> bool:
        return self.current is not None and self.current.is_over

    @property
    def restarts(self) -> int:
        return max(self.next_attempt - 1, 0)


class TerminationCause(Enum):
    DELETED = "deleted"
    """By the API, or by whoever took it from there."""
    FAILED = "failed"
    """The node ends it: evicted, past its deadline, refused."""
    FINISHED = "finished"
    """Its containers have ended and do not run again."""


class PodTermination(Struct, frozen=True):
    """The pod is to end as a whole."""

    why: TerminationCause
    grace_seconds: float = 0.0
    reason: str = ""
    message: str = ""


class PodRuntimeView(Struct):
    containers: dict[str, ObservedContainer] = field(default_factory=dict)
    sandbox: ContainerStatus | None = None
    next_sandbox: int = 0
    is_set_up: bool = False
    """Its network, volumes and control group are there, as far as this process knows."""
    retry_at: float = 0.0
    """Neither is tried again before."""
    failures: int = 0
    trouble: WaitingState | None = None
    """What keeps the pod as a whole from starting."""
    end: PodTermination | None = None
    is_clean: bool = False
    """Nothing of it is left on the node."""
    given: list[Object] | None = None
    """What its containers were allowed to use; None: nothing yet."""

    def observed(self, name: str) -> ObservedContainer:
        return self.containers.setdefault(name, ObservedContainer())

    @property
    def has_running(self) -> bool:
        return any(each.is_running for each in self.containers.values())
