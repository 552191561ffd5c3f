"""The conditions of a pod, with the kubelet's reasons; a condition that did not change keeps its time."""

from collections.abc import Collection, Sequence

from alcove.agent.pods.containers import Role, Wanted
from alcove.agent.pods.view import View, Why
from alcove.agent.runtime.base import Phase
from alcove.api import meta, objects
from alcove.api.objects import Object

_DISRUPTED = ("Evicted", "Terminated", "NodeShutdown")


def of(pod: Object, everything: Sequence[Wanted], view: View, status: Object, now: float) -> list[Object]:
    """`status` has the containers' statuses and the phase already."""
    phase = status["phase"]
    sidecars = {each.name for each in everything if each.role is Role.SIDECAR}
    ready = _containers_ready(status, phase, sidecars)
    found = [
        _sandbox_ready(view),
        _initialized(everything, view, phase),
        _with_gates(pod, ready),
        ready,
        _condition("PodScheduled", True),
    ]
    end = view.end
    if end is not None and end.why is Why.FAILED and end.reason in _DISRUPTED:
        found.append(_condition("DisruptionTarget", True, "TerminationByKubelet", end.message))
    if generation := pod["metadata"].get("generation"):
        found = [{**each, "observedGeneration": generation} for each in found]
    before = {each["type"]: each for each in objects.get(pod, "status", "conditions", default=[])}
    return [_timed(each, before.get(each["type"]), now) for each in found]


def _condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Object:
    """Without a reason the fields are there, as nothing: a patch takes away what was there before."""
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


def _sandbox_ready(view: View) -> Object:
    holds = view.sandbox is not None and view.sandbox.phase is Phase.RUNNING and not view.is_clean
    return _condition("PodReadyToStartContainers", holds)


def _initialized(everything: Sequence[Wanted], view: View, phase: str) -> Object:
    if phase == "Succeeded":
        return _condition("Initialized", True, "PodCompleted")
    if any(view.seen(each.name).current for each in everything if each.role is Role.MAIN):
        return _condition("Initialized", True)
    missing = [each.name for each in everything if not _is_initialized(each, view)]
    if not missing:
        return _condition("Initialized", True)
    told = f"containers with incomplete status: [{' '.join(missing)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", told)


def _is_initialized(container: Wanted, view: View) -> bool:
    seen = view.seen(container.name)
    match container.role:
        case Role.INIT:
            return seen.is_over and seen.current is not None and seen.current.status.exit_code == 0
        case Role.SIDECAR:
            return seen.is_running and seen.is_started
        case Role.MAIN | Role.EPHEMERAL:
            return True


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
    told = f"containers with unready status: [{' '.join(missing)}]"
    return _condition("ContainersReady", False, "ContainersNotReady", told)


def _with_gates(pod: Object, ready: Object) -> Object:
    if ready["status"] != "True":
        return {**ready, "type": "Ready"}
    holding = {
        each["type"]
        for each in objects.get(pod, "status", "conditions", default=[])
        if each.get("status") == "True"
    }
    missing = [
        gate["conditionType"]
        for gate in objects.get(pod, "spec", "readinessGates", default=[])
        if gate["conditionType"] not in holding
    ]
    if not missing:
        return _condition("Ready", True)
    told = " and ".join(
        f'corresponding condition of pod readiness gate "{each}" does not exist.' for each in missing
    )
    return _condition("Ready", False, "ReadinessGatesNotReady", told)
