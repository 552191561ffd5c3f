"""A pod's columns. The status column combines phase, container states and deletion, as in kubectl."""

from msgspec import Struct

from alcove.api import objects
from alcove.api.columns.base import AGE, NAME, NONE, WIDE, age_of, at
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object

_OVER = ("Succeeded", "Failed")


class PodSummary(Struct, frozen=True):
    ready: int
    total: int
    status: str
    restarts: int
    restarted_at: str


def summarize(pod: Object) -> PodSummary:
    """Return ready containers, status and restarts, as kubectl shows them."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {
        init.get("name") for init in spec.get("initContainers") or () if init.get("restartPolicy") == "Always"
    }
    inits, containers = status.get("initContainerStatuses") or [], status.get("containerStatuses") or []
    initializing = _initializing(inits, sidecars, len(spec.get("initContainers") or ()))
    has_run = not initializing or _condition(status, "Initialized") == "True"
    counted = [init for init in inits if init.get("name") in sidecars] + containers if has_run else inits
    ready = [
        init for init in inits if init.get("name") in sidecars and init.get("started") and init.get("ready")
    ]
    word = initializing or _phase(status)
    if has_run:
        ready += [each for each in containers if each.get("ready") and _state(each, "running") is not None]
        word = _running(containers, word, _condition(status, "Ready") == "True")
    return PodSummary(
        ready=len(ready),
        total=len(spec.get("containers") or ()) + len(sidecars),
        status=_leaving(pod, status) or word,
        restarts=sum(each.get("restartCount", 0) for each in counted),
        restarted_at=max((_restarted_at(each) for each in counted), default=""),
    )


def _phase(status: Object) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return status.get("reason") or status.get("phase") or "Unknown"


def _initializing(inits: list[Object], sidecars: set[str], total: int) -> str:
    """Return the state of the first init container that is not done; empty if all are done."""
    for index, init in enumerate(inits):
        terminated = _state(init, "terminated")
        if terminated is not None:
            if terminated.get("exitCode", 0) != 0:
                return f"Init:{_ended(terminated)}"
        elif not (init.get("name") in sidecars and init.get("started")):
            reason = (_state(init, "waiting") or {}).get("reason", "")
            return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{index}/{total}"
    return ""


def _running(containers: list[Object], word: str, is_ready: bool) -> str:
    """Return the pod's status from its containers: the first that waits or has terminated determines it."""
    is_any_running = False
    for container in reversed(containers):
        waiting, terminated = _state(container, "waiting"), _state(container, "terminated")
        if waiting is not None and waiting.get("reason"):
            word = waiting["reason"]
        elif terminated is not None:
            word = _ended(terminated)
        elif container.get("ready") and _state(container, "running") is not None:
            is_any_running = True
    if word == "Completed" and is_any_running:
        return "Running" if is_ready else "NotReady"
    return word


def _leaving(pod: Object, status: Object) -> str:
    if not objects.get(pod, "metadata", "deletionTimestamp"):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in _OVER else "Terminating"


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode', 0)}"


def _state(container: Object, state: str) -> Object | None:
    return (container.get("state") or {}).get(state)


def _restarted_at(container: Object) -> str:
    return str(objects.get(container, "lastState", "terminated", "finishedAt", default=""))


def _condition(status: Object, kind: str) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            return str(condition.get("status", ""))
    return ""


def _ready(pod: Object, _now: float) -> str:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.total}"


def _status(pod: Object, _now: float) -> str:
    return summarize(pod).status


def _restarts(pod: Object, now: float) -> str:
    summary = summarize(pod)
    if summary.restarts and summary.restarted_at:
        return f"{summary.restarts} ({age_of(summary.restarted_at, now)} ago)"
    return str(summary.restarts)


def _ip(pod: Object, _now: float) -> str:
    ips = objects.get(pod, "status", "podIPs", default=())
    return ips[0].get("ip") or NONE if ips else objects.get(pod, "status", "podIP", default=NONE)


def _readiness_gates(pod: Object, _now: float) -> str:
    gates = objects.get(pod, "spec", "readinessGates", default=())
    status = pod.get("status") or {}
    passed = sum(_condition(status, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


COLUMNS = (
    NAME,
    PrinterColumn("Ready", _ready, description="Ready containers of all containers."),
    PrinterColumn("Status", _status, description="Status of the pod."),
    PrinterColumn(
        "Restarts", _restarts, description="Number of container restarts, and time since the last."
    ),
    AGE,
    PrinterColumn("IP", _ip, priority=WIDE, description="Address in the pod's network."),
    PrinterColumn(
        "Node", at("spec", "nodeName", default=NONE), priority=WIDE, description="Node of the pod."
    ),
    PrinterColumn(
        "Nominated Node",
        at("status", "nominatedNodeName", default=NONE),
        priority=WIDE,
        description="Node where pods are being preempted for this pod.",
    ),
    PrinterColumn(
        "Readiness Gates",
        _readiness_gates,
        priority=WIDE,
        description="Readiness gates that are true, of all.",
    ),
)
