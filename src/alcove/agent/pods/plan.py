"""What to do next for a pod: a pure function of what is wanted and what is seen.

    set up ──▶ sandbox ──▶ init containers and sidecars, one by one ──▶ containers ──▶ (restarts)
       ▲                                                                    │
       └───────────── the sandbox died: its containers are ended ◀──────────┤
                                                                            ▼
    nothing left ◀── everything removed ◀── sidecars stopped ◀── containers stopped: the pod ends

A plan has at most one step, which whoever carries it out finishes before asking again, and any number of
containers to be stopped, which takes its time.
"""

from collections.abc import Sequence

from msgspec import Struct

from alcove.agent.pods.containers import ContainerRole, DesiredContainer, desired_containers, restarts
from alcove.agent.pods.view import ObservedContainer, PodRuntimeView, PodTermination, TerminationCause
from alcove.agent.runtime.base import ContainerId, ContainerPhase
from alcove.api.objects import Object

GRACE_SECONDS = 30.0


class SetUpPod(Struct, frozen=True):
    """Network, volumes, control group."""


class MakeSandbox(Struct, frozen=True):
    attempt: int


class StartContainer(Struct, frozen=True):
    """A container, from its image to its postStart hook."""

    container: str
    attempt: int


class StartCreatedContainer(Struct, frozen=True):
    """A container that was made but not started when the agent before was stopped."""

    container: str
    id: ContainerId


class RemoveContainer(Struct, frozen=True):
    container: str
    id: ContainerId


class ResizeContainers(Struct, frozen=True):
    """What its containers may use is not what they were given."""


class RemoveSandbox(Struct, frozen=True):
    """It died, and its containers with it: to begin again, its network too."""


class TearDownPod(Struct, frozen=True):
    """Everything of the pod goes, after its last status is told."""


Step = (
    SetUpPod
    | MakeSandbox
    | StartContainer
    | StartCreatedContainer
    | RemoveContainer
    | ResizeContainers
    | RemoveSandbox
    | TearDownPod
)


class StopContainer(Struct, frozen=True):
    container: str
    grace_seconds: float
    message: str = ""


class PodPlan(Struct, frozen=True):
    step: Step | None = None
    stops: tuple[StopContainer, ...] = ()
    wake_at: float | None = None
    """Monotonic: look again then, if nothing happens before."""
    is_over: bool = False
    """Nothing is left to do, ever."""


def plan(spec: Object, view: PodRuntimeView, now: float) -> PodPlan:
    everything = desired_containers(spec)
    end = view.end or finished(spec, everything, view)
    if end is not None:
        return _ending(everything, view, end)
    if view.sandbox is not None and view.sandbox.phase in (ContainerPhase.EXITED, ContainerPhase.BROKEN):
        stops = _stops([each for each in everything if view.observed(each.name).is_running], 0.0)
        return PodPlan(stops=stops) if stops else PodPlan(RemoveSandbox())
    if not view.is_set_up or view.sandbox is None or view.sandbox.phase is ContainerPhase.CREATED:
        return _preparing(view, now)
    return _running(spec, everything, view, now)


def _preparing(view: PodRuntimeView, now: float) -> PodPlan:
    if now < view.retry_at:
        return PodPlan(wake_at=view.retry_at)
    if not view.is_set_up:
        return PodPlan(SetUpPod())
    return PodPlan(MakeSandbox(view.next_sandbox))


def _running(
    spec: Object, everything: Sequence[DesiredContainer], view: PodRuntimeView, now: float
) -> PodPlan:
    doomed = [
        each for each in everything if view.observed(each.name).is_running and view.observed(each.name).doom
    ]
    stops = tuple(
        StopContainer(each.name, grace_of(spec, each), f"{view.observed(each.name).doom}, will be restarted")
        for each in doomed
    )
    if view.given is not None and view.given != resources_of(spec):
        return PodPlan(ResizeContainers(), stops)
    wake_at: float | None = None
    for each in _due(spec, everything, view):
        observed = view.observed(each.name)
        if observed.retry_at <= now:
            return PodPlan(_begin(each, observed), stops)
        wake_at = observed.retry_at if wake_at is None else min(wake_at, observed.retry_at)
    for each in everything:
        for id in view.observed(each.name).stale:
            return PodPlan(RemoveContainer(each.name, id), stops)
    return PodPlan(stops=stops, wake_at=wake_at)


def resources_of(spec: Object) -> list[Object]:
    """What all containers may use, in order."""
    return [
        each.spec.get("resources") or {}
        for each in desired_containers(spec)
        if each.role is not ContainerRole.EPHEMERAL
    ]


def _begin(container: DesiredContainer, observed: ObservedContainer) -> Step:
    if observed.current is not None and observed.current.status.phase is ContainerPhase.CREATED:
        return StartCreatedContainer(container.name, observed.current.status.id)
    return StartContainer(container.name, observed.next_attempt)


def _due(
    spec: Object, everything: Sequence[DesiredContainer], view: PodRuntimeView
) -> list[DesiredContainer]:
    """Containers that should run now and do not, those in back-off too."""
    has_begun = any(
        view.observed(each.name).current is not None and _is_in_sandbox(view, view.observed(each.name))
        for each in everything
        if each.role is ContainerRole.MAIN
    )
    due: list[DesiredContainer] = []
    for each in everything:
        observed = view.observed(each.name)
        match each.role:
            case ContainerRole.INIT if has_begun or _is_done(view, observed):
                continue
            case ContainerRole.SIDECAR if observed.is_running and (has_begun or observed.is_started):
                continue
            case ContainerRole.INIT | ContainerRole.SIDECAR:
                if not observed.is_running:
                    due.append(each)
                if not has_begun:
                    return due  # The next one waits for this.
            case ContainerRole.MAIN | ContainerRole.EPHEMERAL:
                if _wants_run(spec, each, observed):
                    due.append(each)
    return due


def _is_in_sandbox(view: PodRuntimeView, observed: ObservedContainer) -> bool:
    return (
        view.sandbox is not None
        and observed.current is not None
        and observed.current.status.sandbox == view.sandbox.id
    )


def _is_done(view: PodRuntimeView, observed: ObservedContainer) -> bool:
    """An init container has done its work, in this sandbox."""
    return _is_in_sandbox(view, observed) and _has_succeeded(observed)


def _has_succeeded(observed: ObservedContainer) -> bool:
    return observed.current is not None and observed.is_over and observed.current.status.exit_code == 0


def _wants_run(spec: Object, container: DesiredContainer, observed: ObservedContainer) -> bool:
    if observed.current is None or observed.current.status.phase is ContainerPhase.CREATED:
        return True
    return observed.is_over and restarts(container, spec, observed.current.status.exit_code)


# The pod's end


def finished(
    spec: Object, everything: Sequence[DesiredContainer], view: PodRuntimeView
) -> PodTermination | None:
    """The pod's end by itself: an init container failed for good, or all its containers have ended for good."""
    grace = grace_of_pod(spec)
    mains = [each for each in everything if each.role is ContainerRole.MAIN]
    for each in everything:
        if (
            each.role is ContainerRole.INIT
            and _ended_for_good(spec, each, view)
            and not _has_succeeded(view.observed(each.name))
        ):
            return PodTermination(TerminationCause.FINISHED, grace)
    if mains and all(_ended_for_good(spec, each, view) for each in mains):
        return PodTermination(TerminationCause.FINISHED, grace)
    return None


def _ended_for_good(spec: Object, container: DesiredContainer, view: PodRuntimeView) -> bool:
    observed = view.observed(container.name)
    if observed.current is None or not observed.is_over:
        return False
    return not restarts(container, spec, observed.current.status.exit_code)


def _ending(everything: Sequence[DesiredContainer], view: PodRuntimeView, end: PodTermination) -> PodPlan:
    running = [each for each in everything if view.observed(each.name).is_running]
    others = [each for each in running if each.role is not ContainerRole.SIDECAR]
    if others:
        return PodPlan(stops=_stops(others, end.grace_seconds))
    if running:
        # Sidecars serve the others to the end, and each other: the last to start is the first to stop.
        return PodPlan(stops=_stops(running[-1:], end.grace_seconds))
    if not view.is_clean:
        return PodPlan(TearDownPod())
    return PodPlan(is_over=end.why is TerminationCause.DELETED)


def _stops(containers: Sequence[DesiredContainer], grace_seconds: float) -> tuple[StopContainer, ...]:
    return tuple(
        StopContainer(each.name, grace_seconds, f"Stopping container {each.name}") for each in containers
    )


def grace_of_pod(spec: Object) -> float:
    told = spec.get("terminationGracePeriodSeconds")
    return float(told) if told is not None else GRACE_SECONDS


def grace_of(spec: Object, container: DesiredContainer) -> float:
    """How long a container may take to stop when its probe failed."""
    probe: Object = container.spec.get("livenessProbe") or container.spec.get("startupProbe") or {}
    own = probe.get("terminationGracePeriodSeconds")
    return float(own) if own is not None else grace_of_pod(spec)
