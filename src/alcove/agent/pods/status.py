"""The status of a pod as its node reports it: a pure function of the spec and the observed state.

Fields, reasons and rules are the kubelet's. A terminal phase never changes.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from alcove.agent.pods import conditions
from alcove.agent.pods.containers import ContainerRole, DesiredContainer, desired_containers, restarts
from alcove.agent.pods.plan import restarts_all
from alcove.agent.pods.resizing import with_resources
from alcove.agent.pods.view import (
    ContainerRun,
    ObservedContainer,
    PodRuntimeView,
    TerminationCause,
    WaitingState,
)
from alcove.agent.runtime.base import ContainerPhase
from alcove.api import meta
from alcove.api.objects import Object

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = (SUCCEEDED, FAILED)
SANDBOXED = "gvisor"
"""The handler that does not make mounts recursively read-only."""
TEXT_LENGTH_MAX = 4_096
"""Characters of one text in a pod's status, as of a termination message; more are cut off."""
_SIGNALLED = 128
_FIELDS = {
    ContainerRole.INIT: "initContainerStatuses",
    ContainerRole.SIDECAR: "initContainerStatuses",
    ContainerRole.MAIN: "containerStatuses",
    ContainerRole.EPHEMERAL: "ephemeralContainerStatuses",
}


class HostFacts(Struct, frozen=True):
    """The node's part of a pod's status."""

    addresses: tuple[str, ...]
    handler: str = ""
    """The pod's runtime handler."""


def is_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL


def status_of(
    pod: Object, view: PodRuntimeView, host: HostFacts, addresses: Sequence[str], now: float
) -> Object:
    """`addresses` are the pod's, empty before it has any; `now` is wall clock time."""
    spec, before = with_resources(pod, view.resize.allocated)["spec"], pod.get("status") or {}
    containers = desired_containers(spec)
    status: Object = {}
    for each in containers:
        container_status = _container_status(each, spec, view, host)
        status.setdefault(_FIELDS[each.role], []).append(container_status)
    phase = _phase(spec, containers, view, status)
    status["phase"] = phase
    status["startTime"] = before.get("startTime") or meta.format_time(now)
    if generation := pod["metadata"].get("generation"):
        status["observedGeneration"] = generation
    if host.addresses:
        status["hostIP"] = host.addresses[0]
        status["hostIPs"] = [{"ip": each} for each in host.addresses]
    if addresses:
        status["podIP"] = addresses[0]
        status["podIPs"] = [{"ip": each} for each in addresses]
    if view.end is not None and view.end.cause is TerminationCause.FAILED and phase == FAILED:
        status["reason"], status["message"] = view.end.reason, view.end.message
    status["conditions"] = conditions.pod_conditions(pod, containers, view, status, now)
    short: Object = cut(status)
    return short


def cut(value: Any) -> Any:
    """The same status without the rest of long texts. Messages quote names, paths and commands of the spec, which may
    have megabytes; with all of them the object would be too large to be stored."""
    match value:
        case str():
            return value if len(value) <= TEXT_LENGTH_MAX else f"{value[:TEXT_LENGTH_MAX]}…"
        case dict():
            return {name: cut(each) for name, each in value.items()}
        case list():
            return [cut(each) for each in value]
    return value


# Containers


def _container_status(
    container: DesiredContainer, spec: Object, view: PodRuntimeView, host: HostFacts
) -> Object:
    observed = view.containers.get(container.name) or ObservedContainer()
    current, previous = observed.current, observed.previous
    status: Object = {
        "name": container.name,
        "image": (current.image if current else "") or container.spec.get("image", ""),
        "imageID": current.image_id if current else "",
        "restartCount": observed.restarts,
        "ready": _is_ready(container, observed),
        "started": observed.is_running and observed.is_started,
        "state": _state(container, spec, observed, view, host),
        "lastState": {},
    }
    if current is not None:
        status["containerID"] = _container_id(host, current)
        if current.user is not None:
            groups = {"supplementalGroups": list(current.user.groups)} if current.user.groups else {}
            status["user"] = {"linux": {"uid": current.user.uid, "gid": current.user.gid, **groups}}
    if mounts := container.spec.get("volumeMounts"):
        # A longer path cannot be mounted, and cut it could be the same as another one.
        possible = (each for each in mounts if len(each["mountPath"]) <= TEXT_LENGTH_MAX)
        status["volumeMounts"] = [_mount_status(each, host) for each in possible]
    is_sized = observed.is_running and container.role is not ContainerRole.EPHEMERAL
    if is_sized and (allocated := container.spec.get("resources")):
        status["resources"] = allocated
        if requests := allocated.get("requests"):
            status["allocatedResources"] = requests
    ended = current if "waiting" in status["state"] and current is not None and current.is_over else previous
    if ended is not None:
        status["lastState"] = {"terminated": _terminated(ended, host)}
    return status


def _mount_status(mount: Object, host: HostFacts) -> Object:
    status = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        wanted = mount.get("recursiveReadOnly") or "Disabled"
        possible = "Disabled" if host.handler == SANDBOXED else "Enabled"
        status |= {"readOnly": True, "recursiveReadOnly": possible if wanted == "IfPossible" else wanted}
    return status


def _is_ready(container: DesiredContainer, observed: ObservedContainer) -> bool:
    if container.role is ContainerRole.INIT:
        return observed.is_over and observed.current is not None and observed.current.status.exit_code == 0
    return observed.is_running and observed.is_ready


def _state(
    container: DesiredContainer,
    spec: Object,
    observed: ObservedContainer,
    view: PodRuntimeView,
    host: HostFacts,
) -> Object:
    current = observed.current
    if current is not None and current.is_running:
        return {"running": {"startedAt": meta.format_time(current.status.started_at)}}
    if current is not None and current.is_over:
        will_restart = view.end is None and restarts(container, spec, current.status.exit_code)
        if not will_restart or observed.waiting is None:
            return {"terminated": _terminated(current, host)}
    waiting = observed.waiting or WaitingState(_initial_reason(spec))
    state = {"reason": waiting.reason}
    if waiting.message:
        state["message"] = waiting.message
    return {"waiting": state}


def _initial_reason(spec: Object) -> str:
    """Of all containers, init containers included, as the kubelet reports it."""
    return "PodInitializing" if spec.get("initContainers") else "ContainerCreating"


def _terminated(ended: ContainerRun, host: HostFacts) -> Object:
    status = ended.status
    state: Object = {"exitCode": status.exit_code, "reason": reason_of(ended)}
    if ended.message:
        state["message"] = ended.message
    state["startedAt"] = meta.format_time(status.started_at) if status.started_at else None
    state["finishedAt"] = meta.format_time(status.finished_at) if status.finished_at else None
    state["containerID"] = _container_id(host, ended)
    return state


def reason_of(ended: ContainerRun) -> str:
    if ended.reason:
        return ended.reason
    if ended.status.oom_killed:
        return "OOMKilled"
    return "Completed" if ended.status.exit_code == 0 else "Error"


def _container_id(host: HostFacts, attempt: ContainerRun) -> str:
    return f"{host.handler or 'alcove'}://{attempt.status.id}"


# The pod


def _phase(spec: Object, containers: Sequence[DesiredContainer], view: PodRuntimeView, status: Object) -> str:
    if view.end is not None and not view.has_running:
        if view.end.cause is TerminationCause.FAILED:
            return FAILED
        return SUCCEEDED if _all_succeeded(containers, view) else FAILED
    if view.end is None and _is_restarting(containers, view):
        return RUNNING
    inits = [each for each in containers if each.role in (ContainerRole.INIT, ContainerRole.SIDECAR)]
    if any(_failed_for_good(spec, each, view) for each in inits):
        return FAILED if not view.has_running else PENDING
    if not _is_initialized(inits, containers, view):
        return PENDING
    return _phase_of_mains(spec, status.get("containerStatuses") or [], view)


def _is_restarting(containers: Sequence[DesiredContainer], view: PodRuntimeView) -> bool:
    """Whether all containers are restarted after one of them exited."""
    mains = [view.observed(each.name) for each in containers if each.role is ContainerRole.MAIN]
    return restarts_all(containers, view) or any(each.current is None and each.previous for each in mains)


def _failed_for_good(spec: Object, container: DesiredContainer, view: PodRuntimeView) -> bool:
    observed = view.observed(container.name)
    if observed.current is None or not observed.is_over or container.role is ContainerRole.SIDECAR:
        return False
    code = observed.current.status.exit_code
    return code != 0 and not restarts(container, spec, code)


def _is_initialized(
    inits: Sequence[DesiredContainer], containers: Sequence[DesiredContainer], view: PodRuntimeView
) -> bool:
    if any(view.observed(each.name).current for each in containers if each.role is ContainerRole.MAIN):
        return True
    return all(_has_passed(each, view.observed(each.name)) for each in inits)


def _has_passed(container: DesiredContainer, observed: ObservedContainer) -> bool:
    """Whether the next init container may start: an init container has completed, a sidecar has started."""
    if container.role is ContainerRole.SIDECAR:
        return observed.is_running and observed.is_started
    return observed.current is not None and observed.is_over and observed.current.status.exit_code == 0


def _phase_of_mains(spec: Object, statuses: Sequence[Object], view: PodRuntimeView) -> str:
    running = waiting = stopped = succeeded = 0
    for each in statuses:
        state, last = each["state"], each["lastState"]
        if "running" in state:
            running += 1
        elif ended := state.get("terminated"):
            stopped += 1
            succeeded += ended["exitCode"] == 0
        elif "terminated" in last:
            stopped += 1
        else:
            waiting += 1
    if waiting or not statuses:
        return PENDING
    if running or view.has_running:
        return RUNNING
    if (spec.get("restartPolicy") or "Always") == "Always":
        return RUNNING
    if stopped == succeeded:
        return SUCCEEDED
    return FAILED if spec.get("restartPolicy") == "Never" else RUNNING


def _all_succeeded(containers: Sequence[DesiredContainer], view: PodRuntimeView) -> bool:
    for each in containers:
        if each.role in (ContainerRole.SIDECAR, ContainerRole.EPHEMERAL):
            continue
        current = view.observed(each.name).current
        if current is None or current.status.phase is not ContainerPhase.EXITED or current.status.exit_code:
            return False
    return True
