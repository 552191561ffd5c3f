"""Requests and limits as cgroup limits and OOM scores."""

from msgspec import Struct, structs

from alcove.agent.cgroups import CPU_PERIOD_US, CgroupLimits
from alcove.agent.runtime import node_processes
from alcove.api.kinds.core.pods.totals import (
    Amounts,
    container_requests,
    is_sidecar,
    pod_limit,
    pod_requests,
    qos_class,
)
from alcove.api.objects import Object
from alcove.api.quantity import of

PROCESSES_MAX = 4_096
"""Most processes in one container; gVisor's threads count as well."""
OPEN_FILES_SOFT, OPEN_FILES_MAX = 1_024, 524_288
"""The limits of open files of a container's processes, as systemd and containerd 2 give them. The soft one is small:
`select` cannot use larger numbers, and some programs walk all numbers up to it. Programs that need more raise it."""
QOS = "alcove.io/qos-class"
"""The annotation of a container's configuration with the QoS class of its pod."""
CONTAINER_FIELDS = ("containers", "initContainers", "ephemeralContainers")
_SHARES_MIN, _SHARES_MAX = 2, 262_144
_NO_LIMIT = (1 << 63) - 1
_GUARANTEED_OOM_SCORE, _BEST_EFFORT_OOM_SCORE = -997, 1_000


class NodeCapacity(Struct, frozen=True):
    """The node's memory, and the lowest OOM score that the agent may set."""

    memory_bytes: int
    oom_score_floor: int = -1_000
    """The agent's own OOM score where it may not set a lower one."""
    open_files_max: int = OPEN_FILES_MAX
    """The agent's own hard limit of open files where it may not set a higher one."""


def shares_of(cpu_milli: int) -> int:
    return min(max(cpu_milli * 1_024 // 1_000, _SHARES_MIN), _SHARES_MAX)


def container_limits_of(container: Object, pod: Object) -> CgroupLimits:
    """A container without a limit has the pod-level one. `pod` is the pod's spec."""
    requests = _declared(container, "requests")
    limits = _declared(pod, "limits") | {
        name: value for name, value in _declared(container, "limits").items() if of(value)
    }
    cpu = of(limits["cpu"]).milli if "cpu" in limits else 0
    requested = of(requests["cpu"]).milli if "cpu" in requests else cpu
    memory = of(limits["memory"]).value if "memory" in limits else 0
    return CgroupLimits(cpu, shares_of(requested), memory, PROCESSES_MAX)


def pod_limits_of(pod: Object) -> CgroupLimits:
    """The pod has a limit if it has one of its own or every container has one; the RuntimeClass overhead is
    added."""
    requests, cpu_limit, memory_limit = pod_requests(pod), pod_limit(pod, "cpu"), pod_limit(pod, "memory")
    overhead = {name: of(value) for name, value in (pod.get("overhead") or {}).items()}
    overhead_memory = overhead["memory"].value if "memory" in overhead else 0
    cpu = cpu_limit.milli + _milli(overhead) if cpu_limit else 0
    memory = memory_limit.value + overhead_memory if memory_limit else 0
    return CgroupLimits(cpu, shares_of(_milli(requests)), memory, PROCESSES_MAX)


def cgroup_limits_of(pod: Object, file_bytes: int = 0) -> CgroupLimits:
    """The limits of the pod's cgroup, which also has the processes of the node that serve the pod. `file_bytes` is the
    memory of its projected files, which is not in the cgroup: at most half of the limit is taken for them."""
    limits = pod_limits_of(pod)
    if not limits.memory_bytes:
        return limits
    # One for each container and one for the sandbox.
    count = 1 + sum(len(pod.get(field) or ()) for field in CONTAINER_FIELDS)
    memory = limits.memory_bytes - min(file_bytes, limits.memory_bytes // 2)
    return structs.replace(limits, memory_bytes=memory + count * node_processes.BYTES_PER_CONTAINER)


def unenforced_limits(pod: Object) -> str:
    """What a sandbox cannot enforce, as a message; empty if it enforces all. Its containers share one cgroup, which has
    a limit only if the whole pod has one."""
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    parts = []
    for resource in ("cpu", "memory"):
        limited = [each["name"] for each in containers if of(_declared(each, "limits").get(resource, 0))]
        if limited and pod_limit(pod, resource) is None:
            parts.append(f"{resource} limits of containers {', '.join(limited)}")
    if not parts:
        return ""
    return (
        f"{' and '.join(parts)} are not enforced: a sandbox is limited as a whole, and other containers have "
        "no limit; set one for every container, or for the pod in spec.resources"
    )


def _declared(holder: Object, side: str) -> Object:
    resources: Object = holder.get("resources") or {}
    return resources.get(side) or {}


def _milli(amounts: Amounts) -> int:
    return amounts["cpu"].milli if "cpu" in amounts else 0


def oom_score(pod: Object, container: Object, machine: NodeCapacity) -> int:
    """The OOM score adjustment, as the kubelet computes it from the pod's QoS class and memory request."""
    match qos_class(pod):
        case "Guaranteed":
            score = _GUARANTEED_OOM_SCORE
        case "BestEffort":
            score = _BEST_EFFORT_OOM_SCORE
        case _:
            requests = _declared(container, "requests")
            memory = of(requests["memory"]).value if "memory" in requests else 0
            memory += _undivided_memory(pod)
            share = 1_000 - 1_000 * memory // max(1, machine.memory_bytes)
            score = min(max(share, 1_000 + _GUARANTEED_OOM_SCORE), _BEST_EFFORT_OOM_SCORE - 1)
    return max(score, machine.oom_score_floor)


def _undivided_memory(pod: Object) -> int:
    """An equal part for each container of what the pod requests beyond its containers."""
    requests = _declared(pod, "requests")
    if "memory" not in requests:
        return 0
    divided = container_requests(pod)
    rest = of(requests["memory"]).value - (divided["memory"].value if "memory" in divided else 0)
    running = [each for each in pod.get("initContainers") or () if is_sidecar(each)]
    return max(0, rest) // max(1, len(pod.get("containers") or ()) + len(running))


def rlimits(machine: NodeCapacity) -> list[Object]:
    """The rlimits of a container's processes, which would otherwise inherit those of the agent."""
    hard = min(OPEN_FILES_MAX, machine.open_files_max)
    return [{"type": "RLIMIT_NOFILE", "soft": min(OPEN_FILES_SOFT, hard), "hard": hard}]


def visible_resources(resources: Object) -> dict[str, int]:
    """Values of files of version 1 of control groups, from resources as in the OCI runtime specification."""
    cpu, memory = resources.get("cpu") or {}, resources.get("memory") or {}
    return {
        "cpu.shares": cpu.get("shares", _SHARES_MIN),
        "cpu.cfs_quota_us": cpu.get("quota", -1),
        "memory.limit_in_bytes": memory.get("limit", _NO_LIMIT),
    }


def oci_resources(limits: CgroupLimits) -> Object:
    """The limits in the form of the OCI runtime specification; swap is never allowed."""
    cpu: Object = {"shares": limits.cpu_shares or _SHARES_MIN}
    if limits.cpu_milli:
        cpu |= {"quota": max(1_000, limits.cpu_milli * CPU_PERIOD_US // 1_000), "period": CPU_PERIOD_US}
    resources: Object = {"devices": [{"allow": False, "access": "rwm"}], "cpu": cpu}
    if limits.memory_bytes:
        resources["memory"] = {"limit": limits.memory_bytes, "swap": limits.memory_bytes}
    if limits.processes:
        resources["pids"] = {"limit": limits.processes}
    return resources
