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

from alcove.agent.pods.containers import Role, Wanted, restarts, wanted
from alcove.agent.pods.view import End, Seen, View, Why
from alcove.agent.runtime.base import ContainerId, Phase
from alcove.api.objects import Object

GRACE_SECONDS = 30.0


class SetUp(Struct, frozen=True):
    """Network, volumes, control group."""


class MakeSandbox(Struct, frozen=True):
    attempt: int


class Start(Struct, frozen=True):
    """A container, from its image to its postStart hook."""

    container: str
    attempt: int


class Resume(Struct, frozen=True):
    """A container that was made but not started when the agent before was stopped."""

    container: str
    id: ContainerId


class Discard(Struct, frozen=True):
    container: str
    id: ContainerId


class Resize(Struct, frozen=True):
    """What its containers may use is not what they were given."""


class DropSandbox(Struct, frozen=True):
    """It died, and its containers with it: to begin again, its network too."""


class Dismantle(Struct, frozen=True):
    """Everything of the pod goes, after its last status is told."""


Step = SetUp | MakeSandbox | Start | Resume | Discard | Resize | DropSandbox | Dismantle


class Stop(Struct, frozen=True):
    container: str
    grace_seconds: float
    message: str = ""


class Plan(Struct, frozen=True):
    step: Step | None = None
    stops: tuple[Stop, ...] = ()
    wake_at: float | None = None
    """Monotonic: look again then, if nothing happens before."""
    is_over: bool = False
    """Nothing is left to do, ever."""


def plan(spec: Object, view: View, now: float) -> Plan:
    everything = wanted(spec)
    end = view.end or finished(spec, everything, view)
    if end is not None:
        return _ending(everything, view, end)
    if view.sandbox is not None and view.sandbox.phase in (Phase.EXITED, Phase.BROKEN):
        stops = _stops([each for each in everything if view.seen(each.name).is_running], 0.0)
        return Plan(stops=stops) if stops else Plan(DropSandbox())
    if not view.is_set_up or view.sandbox is None or view.sandbox.phase is Phase.CREATED:
        return _preparing(view, now)
    return _running(spec, everything, view, now)


def _preparing(view: View, now: float) -> Plan:
    if now < view.retry_at:
        return Plan(wake_at=view.retry_at)
    if not view.is_set_up:
        return Plan(SetUp())
    return Plan(MakeSandbox(view.next_sandbox))


def _running(spec: Object, everything: Sequence[Wanted], view: View, now: float) -> Plan:
    doomed = [each for each in everything if view.seen(each.name).is_running and view.seen(each.name).doom]
    stops = tuple(
        Stop(each.name, grace_of(spec, each), f"{view.seen(each.name).doom}, will be restarted")
        for each in doomed
    )
    if view.given is not None and view.given != resources_of(spec):
        return Plan(Resize(), stops)
    wake_at: float | None = None
    for each in _due(spec, everything, view):
        seen = view.seen(each.name)
        if seen.retry_at <= now:
            return Plan(_begin(each, seen), stops)
        wake_at = seen.retry_at if wake_at is None else min(wake_at, seen.retry_at)
    for each in everything:
        for id in view.seen(each.name).stale:
            return Plan(Discard(each.name, id), stops)
    return Plan(stops=stops, wake_at=wake_at)


def resources_of(spec: Object) -> list[Object]:
    """What all containers may use, in order."""
    return [each.spec.get("resources") or {} for each in wanted(spec) if each.role is not Role.EPHEMERAL]


def _begin(container: Wanted, seen: Seen) -> Step:
    if seen.current is not None and seen.current.status.phase is Phase.CREATED:
        return Resume(container.name, seen.current.status.id)
    return Start(container.name, seen.next_attempt)


def _due(spec: Object, everything: Sequence[Wanted], view: View) -> list[Wanted]:
    """Containers that should run now and do not, those in back-off too."""
    has_begun = any(
        view.seen(each.name).current is not None and _is_in_sandbox(view, view.seen(each.name))
        for each in everything
        if each.role is Role.MAIN
    )
    due: list[Wanted] = []
    for each in everything:
        seen = view.seen(each.name)
        match each.role:
            case Role.INIT if has_begun or _is_done(view, seen):
                continue
            case Role.SIDECAR if seen.is_running and (has_begun or seen.is_started):
                continue
            case Role.INIT | Role.SIDECAR:
                if not seen.is_running:
                    due.append(each)
                if not has_begun:
                    return due  # The next one waits for this.
            case Role.MAIN | Role.EPHEMERAL:
                if _wants_run(spec, each, seen):
                    due.append(each)
    return due


def _is_in_sandbox(view: View, seen: Seen) -> bool:
    return (
        view.sandbox is not None
        and seen.current is not None
        and seen.current.status.sandbox == view.sandbox.id
    )


def _is_done(view: View, seen: Seen) -> bool:
    """An init container has done its work, in this sandbox."""
    return _is_in_sandbox(view, seen) and _has_succeeded(seen)


def _has_succeeded(seen: Seen) -> bool:
    return seen.current is not None and seen.is_over and seen.current.status.exit_code == 0


def _wants_run(spec: Object, container: Wanted, seen: Seen) -> bool:
    if seen.current is None or seen.current.status.phase is Phase.CREATED:
        return True
    return seen.is_over and restarts(container, spec, seen.current.status.exit_code)


# The pod's end


def finished(spec: Object, everything: Sequence[Wanted], view: View) -> End | None:
    """The pod's end by itself: an init container failed for good, or all its containers have ended for good."""
    grace = grace_of_pod(spec)
    mains = [each for each in everything if each.role is Role.MAIN]
    for each in everything:
        if (
            each.role is Role.INIT
            and _ended_for_good(spec, each, view)
            and not _has_succeeded(view.seen(each.name))
        ):
            return End(Why.FINISHED, grace)
    if mains and all(_ended_for_good(spec, each, view) for each in mains):
        return End(Why.FINISHED, grace)
    return None


def _ended_for_good(spec: Object, container: Wanted, view: View) -> bool:
    seen = view.seen(container.name)
    if seen.current is None or not seen.is_over:
        return False
    return not restarts(container, spec, seen.current.status.exit_code)


def _ending(everything: Sequence[Wanted], view: View, end: End) -> Plan:
    running = [each for each in everything if view.seen(each.name).is_running]
    others = [each for each in running if each.role is not Role.SIDECAR]
    if others:
        return Plan(stops=_stops(others, end.grace_seconds))
    if running:
        # Sidecars serve the others to the end, and each other: the last to start is the first to stop.
        return Plan(stops=_stops(running[-1:], end.grace_seconds))
    if not view.is_clean:
        return Plan(Dismantle())
    return Plan(is_over=end.why is Why.DELETED)


def _stops(containers: Sequence[Wanted], grace_seconds: float) -> tuple[Stop, ...]:
    return tuple(Stop(each.name, grace_seconds, f"Stopping container {each.name}") for each in containers)


def grace_of_pod(spec: Object) -> float:
    told = spec.get("terminationGracePeriodSeconds")
    return float(told) if told is not None else GRACE_SECONDS


def grace_of(spec: Object, container: Wanted) -> float:
    """How long a container may take to stop when its probe failed."""
    probe: Object = container.spec.get("livenessProbe") or container.spec.get("startupProbe") or {}
    own = probe.get("terminationGracePeriodSeconds")
    return float(own) if own is not None else grace_of_pod(spec)
