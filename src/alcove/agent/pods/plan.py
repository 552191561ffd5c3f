"""What to do next for a pod: a pure function of its spec and its observed state.

    set up ──▶ sandbox ──▶ init containers and sidecars, one by one ──▶ containers ──▶ (restarts)
       ▲                                                                    │
       └──────── the sandbox exited: its containers are terminated ◀────────┤
                                                                            ▼
    nothing left ◀── teardown ◀── sidecars stopped ◀── containers stopped: the pod terminates

A plan has at most one step, which the worker finishes before it plans again, and any number of containers to
stop, which happens in the background.
"""

from collections.abc import Sequence

from msgspec import Struct

from alcove.agent.pods.containers import (
    ContainerRole,
    DesiredContainer,
    desired_containers,
    restart_rule,
    restarts,
)
from alcove.agent.pods.view import ObservedContainer, PodRuntimeView, PodTermination, TerminationCause
from alcove.agent.runtime.base import ContainerId, ContainerPhase
from alcove.api.objects import Object

GRACE_SECONDS = 30.0
RESTART_ALL = "RestartAllContainers"


class SetUpPod(Struct, frozen=True):
    """Network, volumes and cgroup."""


class MakeSandbox(Struct, frozen=True):
    attempt: int


class StartContainer(Struct, frozen=True):
    """Pulls the image, creates and starts the container, and runs its postStart hook."""

    container: str
    attempt: int


class StartCreatedContainer(Struct, frozen=True):
    """Starts a container that an earlier agent process created but did not start."""

    container: str
    id: ContainerId


class RemoveContainer(Struct, frozen=True):
    container: str
    id: ContainerId


class ResizeContainers(Struct, frozen=True):
    """The resources in the spec differ from those that the containers were allocated."""


class RestartAllContainers(Struct, frozen=True):
    """A container exited, and its rule for that exit code restarts all of them, init containers first."""


class RemoveSandbox(Struct, frozen=True):
    """The sandbox exited, and its containers with it: removes it and its network attachment, to start
    again."""


class TearDownPod(Struct, frozen=True):
    """Writes the pod's last status, then removes containers of the pod from the node."""


Step = (
    SetUpPod
    | MakeSandbox
    | StartContainer
    | StartCreatedContainer
    | RemoveContainer
    | ResizeContainers
    | RestartAllContainers
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
    """When to plan again if nothing changes before; monotonic clock."""
    is_over: bool = False
    """Nothing is left to do: the pod's object can be deleted."""


def plan(spec: Object, view: PodRuntimeView, now: float) -> PodPlan:
    containers = desired_containers(spec)
    end = view.end or finished(spec, containers, view)
    if end is not None:
        return _terminating(containers, view, end)
    if view.sandbox is not None and view.sandbox.phase in (ContainerPhase.EXITED, ContainerPhase.BROKEN):
        stops = _stops([each for each in containers if view.observed(each.name).is_running], 0.0)
        return PodPlan(stops=stops) if stops else PodPlan(RemoveSandbox())
    if restarts_all(containers, view):
        # Without a grace period, as the kubelet does.
        running = [each for each in containers if view.observed(each.name).is_running]
        stops = _stops([each for each in running if each.role is not ContainerRole.EPHEMERAL], 0.0)
        return PodPlan(stops=stops) if stops else PodPlan(RestartAllContainers())
    if not view.is_set_up or view.sandbox is None or view.sandbox.phase is ContainerPhase.CREATED:
        return _preparing(view, now)
    return _running(spec, containers, view, now)


def _preparing(view: PodRuntimeView, now: float) -> PodPlan:
    if now < view.retry_at:
        return PodPlan(wake_at=view.retry_at)
    if not view.is_set_up:
        return PodPlan(SetUpPod())
    return PodPlan(MakeSandbox(view.next_sandbox))


def _running(
    spec: Object, containers: Sequence[DesiredContainer], view: PodRuntimeView, now: float
) -> PodPlan:
    failing = [
        (each, view.observed(each.name).kill_message)
        for each in containers
        if view.observed(each.name).is_running and view.observed(each.name).kill_message
    ]
    stops = tuple(
        StopContainer(
            each.name,
            grace_of(spec, each, view.observed(each.name).failed_probe),
            f"{message}, will be restarted",
        )
        for each, message in failing
    )
    if view.resize.is_due(spec, now):
        return PodPlan(ResizeContainers(), stops)
    wake_at = view.resize.wake_at(spec)
    for each in _due(spec, containers, view):
        observed = view.observed(each.name)
        if observed.retry_at <= now:
            return PodPlan(_start_step(each, observed), stops)
        wake_at = observed.retry_at if wake_at is None else min(wake_at, observed.retry_at)
    for each in containers:
        for id in view.observed(each.name).stale:
            return PodPlan(RemoveContainer(each.name, id), stops)
    return PodPlan(stops=stops, wake_at=wake_at)


def _start_step(container: DesiredContainer, observed: ObservedContainer) -> Step:
    if observed.current is not None and observed.current.status.phase is ContainerPhase.CREATED:
        return StartCreatedContainer(container.name, observed.current.status.id)
    return StartContainer(container.name, observed.next_attempt)


def _due(
    spec: Object, containers: Sequence[DesiredContainer], view: PodRuntimeView
) -> list[DesiredContainer]:
    """Containers that should be running and are not, including those in back-off."""
    has_begun = any(
        view.observed(each.name).current is not None and _is_in_sandbox(view, view.observed(each.name))
        for each in containers
        if each.role is ContainerRole.MAIN
    )
    due: list[DesiredContainer] = []
    for each in containers:
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
                    return due  # The next container waits for this one.
            case ContainerRole.MAIN | ContainerRole.EPHEMERAL:
                if _should_run(spec, each, observed):
                    due.append(each)
    return due


def _is_in_sandbox(view: PodRuntimeView, observed: ObservedContainer) -> bool:
    return (
        view.sandbox is not None
        and observed.current is not None
        and observed.current.status.sandbox == view.sandbox.id
    )


def _is_done(view: PodRuntimeView, observed: ObservedContainer) -> bool:
    """Whether an init container has completed in the current sandbox."""
    return _is_in_sandbox(view, observed) and _has_succeeded(observed)


def _has_succeeded(observed: ObservedContainer) -> bool:
    return observed.current is not None and observed.is_over and observed.current.status.exit_code == 0


def _should_run(spec: Object, container: DesiredContainer, observed: ObservedContainer) -> bool:
    if observed.current is None or observed.current.status.phase is ContainerPhase.CREATED:
        return True
    return observed.is_over and restarts(container, spec, observed.current.status.exit_code)


def restarts_all(containers: Sequence[DesiredContainer], view: PodRuntimeView) -> bool:
    """Whether a container exited whose rule for that exit code restarts all containers."""
    return any(
        observed.current is not None
        and observed.is_over
        and restart_rule(each, observed.current.status.exit_code) == RESTART_ALL
        for each, observed in ((each, view.observed(each.name)) for each in containers)
    )


def reset_containers(spec: Object, view: PodRuntimeView) -> None:
    """All containers but ephemeral ones have to be started again."""
    for each in desired_containers(spec):
        if each.role is not ContainerRole.EPHEMERAL:
            view.observed(each.name).reset()


# Termination


def finished(
    spec: Object, containers: Sequence[DesiredContainer], view: PodRuntimeView
) -> PodTermination | None:
    """The pod's completion: an init container failed, or all main containers exited, and none is restarted.
    None if the pod goes on."""
    if restarts_all(containers, view):
        return None
    grace = grace_of_pod(spec)
    mains = [each for each in containers if each.role is ContainerRole.MAIN]
    for each in containers:
        if (
            each.role is ContainerRole.INIT
            and _is_finished(spec, each, view)
            and not _has_succeeded(view.observed(each.name))
        ):
            return PodTermination(TerminationCause.FINISHED, grace)
    if mains and all(_is_finished(spec, each, view) for each in mains):
        return PodTermination(TerminationCause.FINISHED, grace)
    return None


def _is_finished(spec: Object, container: DesiredContainer, view: PodRuntimeView) -> bool:
    observed = view.observed(container.name)
    if observed.current is None or not observed.is_over:
        return False
    return not restarts(container, spec, observed.current.status.exit_code)


def _terminating(
    containers: Sequence[DesiredContainer], view: PodRuntimeView, end: PodTermination
) -> PodPlan:
    running = [each for each in containers if view.observed(each.name).is_running]
    others = [each for each in running if each.role is not ContainerRole.SIDECAR]
    if others:
        return PodPlan(stops=_stops(others, end.grace_seconds))
    if running:
        # Sidecars stop after the main containers, in reverse start order: they may depend on each other.
        return PodPlan(stops=_stops(running[-1:], end.grace_seconds))
    if not view.is_clean:
        return PodPlan(TearDownPod())
    return PodPlan(is_over=end.cause is TerminationCause.DELETED)


def _stops(containers: Sequence[DesiredContainer], grace_seconds: float) -> tuple[StopContainer, ...]:
    return tuple(
        StopContainer(each.name, grace_seconds, f"Stopping container {each.name}") for each in containers
    )


def grace_of_pod(spec: Object) -> float:
    seconds = spec.get("terminationGracePeriodSeconds")
    return float(seconds) if seconds is not None else GRACE_SECONDS


def grace_of(spec: Object, container: DesiredContainer, failed_probe: str) -> float:
    """The grace period of a container that is restarted: that of the probe which failed, or the pod's."""
    probe: Object = container.spec.get(f"{failed_probe}Probe") or {}
    seconds = probe.get("terminationGracePeriodSeconds")
    return float(seconds) if seconds is not None else grace_of_pod(spec)
