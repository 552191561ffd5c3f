"""The conditions of a pod, with the kubelet's reasons. A condition that did not change keeps its transition
time."""

from collections.abc import Collection, Sequence

from alcove.agent.pods.containers import ContainerRole, DesiredContainer
from alcove.agent.pods.plan import RESTART_ALL, restarts_all
from alcove.agent.pods.resizing import resources_of
from alcove.agent.pods.view import PodRuntimeView, TerminationCause
from alcove.agent.runtime.base import ContainerPhase
from alcove.api import meta, objects
from alcove.api.objects import Object

RESIZE_PENDING, RESIZE_IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
TEMPORARY = (RESIZE_PENDING, RESIZE_IN_PROGRESS)
"""Conditions that are removed when they no longer hold."""
_DISRUPTED = ("Evicted", "Terminated", "NodeShutdown")


def pod_conditions(
    pod: Object, containers: Sequence[DesiredContainer], view: PodRuntimeView, status: Object, now: float
) -> list[Object]:
    """`status` must have the containers' statuses and the phase. Pure function."""
    phase = status["phase"]
    sidecars = {each.name for each in containers if each.role is ContainerRole.SIDECAR}
    ready = _containers_ready(status, phase, sidecars)
    current = [
        _sandbox_ready(view),
        _initialized(containers, view, phase),
        _with_gates(pod, ready),
        ready,
        _condition("PodScheduled", True),
    ]
    if any(_may_restart_all(each) for each in containers):
        current.append(_all_restarting(containers, view))
    end = view.end
    if end is not None and end.cause is TerminationCause.FAILED and end.reason in _DISRUPTED:
        current.append(_condition("DisruptionTarget", True, "TerminationByKubelet", end.message))
    current += _resize(pod, view, phase)
    if generation := pod["metadata"].get("generation"):
        current = [{**each, "observedGeneration": generation} for each in current]
    before = {each["type"]: each for each in objects.get(pod, "status", "conditions", default=[])}
    return [_timed(each, before.get(each["type"]), now) for each in current]


def _resize(pod: Object, view: PodRuntimeView, phase: str) -> list[Object]:
    """Conditions that exist only while a resize is not done."""
    state, wanted = view.resize, resources_of(pod["spec"])
    if state.allocated in (None, wanted) or phase in ("Succeeded", "Failed"):
        return []
    if state.refused != wanted:
        # The status names the spec's generation already, so clients would take the resize for done.
        return [_condition(RESIZE_IN_PROGRESS, True)]
    kind = RESIZE_IN_PROGRESS if state.reason == "Error" else RESIZE_PENDING
    return [_condition(kind, True, state.reason, state.message)]


def _condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Object:
    """Empty fields are written as null, so that the patch removes earlier values."""
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason or None,
        "message": message or None,
    }


def _timed(condition: Object, before: Object | None, now: float) -> Object:
    same = before is not None and before.get("status") == condition["status"]
    time = before.get("lastTransitionTime") if same and before else None
    return {**condition, "lastProbeTime": None, "lastTransitionTime": time or meta.format_time(now)}


def _sandbox_ready(view: PodRuntimeView) -> Object:
    holds = view.sandbox is not None and view.sandbox.phase is ContainerPhase.RUNNING and not view.is_clean
    return _condition("PodReadyToStartContainers", holds)


def _initialized(containers: Sequence[DesiredContainer], view: PodRuntimeView, phase: str) -> Object:
    if phase == "Succeeded":
        return _condition("Initialized", True, "PodCompleted")
    if any(view.observed(each.name).current for each in containers if each.role is ContainerRole.MAIN):
        return _condition("Initialized", True)
    missing = [each.name for each in containers if not _is_initialized(each, view)]
    if not missing:
        return _condition("Initialized", True)
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", message)


def _is_initialized(container: DesiredContainer, view: PodRuntimeView) -> bool:
    observed = view.observed(container.name)
    match container.role:
        case ContainerRole.INIT:
            return (
                observed.is_over and observed.current is not None and observed.current.status.exit_code == 0
            )
        case ContainerRole.SIDECAR:
            return observed.is_running and observed.is_started
        case ContainerRole.MAIN | ContainerRole.EPHEMERAL:
            return True


def _may_restart_all(container: DesiredContainer) -> bool:
    return any(rule.get("action") == RESTART_ALL for rule in container.spec.get("restartPolicyRules") or ())


def _all_restarting(containers: Sequence[DesiredContainer], view: PodRuntimeView) -> Object:
    if view.end is not None or not restarts_all(containers, view):
        return _condition("AllContainersRestarting", False)
    message = "container exited with restart policy rule"
    return _condition("AllContainersRestarting", True, "RestartAllContainersStarted", message)


def _containers_ready(status: Object, phase: str, sidecars: Collection[str]) -> Object:
    if phase == "Succeeded":
        return _condition("ContainersReady", False, "PodCompleted")
    if phase == "Failed":
        return _condition("ContainersReady", False, "PodFailed")
    inits = [each for each in status.get("initContainerStatuses") or () if each["name"] in sidecars]
    counted = [*inits, *(status.get("containerStatuses") or ())]
    missing = [each["name"] for each in counted if not each["ready"]]
    if not missing:
        return _condition("ContainersReady", True)
    message = f"containers with unready status: [{' '.join(missing)}]"
    return _condition("ContainersReady", False, "ContainersNotReady", message)


def _with_gates(pod: Object, ready: Object) -> Object:
    if ready["status"] != "True":
        return {**ready, "type": "Ready"}
    true_conditions = {
        each["type"]
        for each in objects.get(pod, "status", "conditions", default=[])
        if each.get("status") == "True"
    }
    missing = [
        gate["conditionType"]
        for gate in objects.get(pod, "spec", "readinessGates", default=[])
        if gate["conditionType"] not in true_conditions
    ]
    if not missing:
        return _condition("Ready", True)
    message = " and ".join(
        f'corresponding condition of pod readiness gate "{each}" does not exist.' for each in missing
    )
    return _condition("Ready", False, "ReadinessGatesNotReady", message)
