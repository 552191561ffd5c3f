"""Columns of nodes and related kinds, and of metrics.k8s.io."""

from alcove.api import objects, quantity
from alcove.api.columns.base import AGE, NAME, NONE, UNKNOWN, WIDE, Value, at, joined
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def _status(node: Object, _now: float) -> str:
    conditions = objects.get(node, "status", "conditions", default=())
    ready = next((each.get("status") for each in conditions if each.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if objects.get(node, "spec", "unschedulable") else word


def _roles(node: Object, _now: float) -> str:
    labels = objects.labels(node)
    named = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    return joined(sorted(filter(None, named | {labels.get(_ROLE, "")})))


def _address(kind: str) -> Value:
    def value(node: Object, _now: float) -> str:
        addresses = objects.get(node, "status", "addresses", default=())
        return next((each.get("address", NONE) for each in addresses if each.get("type") == kind), NONE)

    return value


def _info(name: str, field: str, description: str, default: str, priority: int = WIDE) -> PrinterColumn:
    value = at("status", "nodeInfo", field, default=default)
    return PrinterColumn(name, value, description=description, priority=priority)


NODE = (
    NAME,
    PrinterColumn("Status", _status, description="Whether the node is ready and schedulable."),
    PrinterColumn("Roles", _roles, description="Roles from the node's labels."),
    AGE,
    _info("Version", "kubeletVersion", "Version of the node agent.", "", priority=0),
    PrinterColumn("Internal-IP", _address("InternalIP"), description="Internal IP address.", priority=WIDE),
    PrinterColumn("External-IP", _address("ExternalIP"), description="External IP address.", priority=WIDE),
    _info("OS-Image", "osImage", "Operating system image.", UNKNOWN),
    _info("Kernel-Version", "kernelVersion", "Kernel version.", UNKNOWN),
    _info("Container-Runtime", "containerRuntimeVersion", "Container runtime and version.", UNKNOWN),
)

RUNTIME_CLASS = (
    NAME,
    PrinterColumn("Handler", at("handler"), description="Handler of the node's container runtime."),
    AGE,
)

LEASE = (NAME, PrinterColumn("Holder", at("spec", "holderIdentity"), description="Holder of the lease."), AGE)

COMPONENT_STATUS = (
    NAME,
    PrinterColumn(
        "Status",
        lambda obj, _now: _health(obj, "status"),
        description="Health of the component.",
    ),
    PrinterColumn(
        "Message", lambda obj, _now: _health(obj, "message"), description="Message of the health check."
    ),
    PrinterColumn("Error", lambda obj, _now: _health(obj, "error"), description="Error of the health check."),
)


def _health(obj: Object, field: str) -> str:
    healthy = [each for each in obj.get("conditions") or () if each.get("type") == "Healthy"]
    if not healthy:
        return "Unknown" if field == "status" else ""
    if field == "status":
        return {"True": "Healthy", "False": "Unhealthy"}.get(healthy[-1].get("status", ""), "Unknown")
    return str(healthy[-1].get(field, ""))


def _usages(obj: Object) -> list[Object]:
    """Return the usage of the object itself, or of its containers."""
    holders = [obj, *(obj.get("containers") or ())]
    return [usage for each in holders if (usage := each.get("usage"))]


def _cpu(obj: Object, _now: float) -> str:
    return f"{sum(quantity.of(each.get('cpu', 0)).nano for each in _usages(obj))}n"


def _memory(obj: Object, _now: float) -> str:
    return f"{sum(quantity.whole(each.get('memory', 0)) for each in _usages(obj)) >> 10}Ki"


_CPU = PrinterColumn("CPU", _cpu, description="CPU usage in cores.")
_MEMORY = PrinterColumn("Memory", _memory, description="Memory usage (working set).")
_WINDOW = PrinterColumn("Window", at("window"), description="Window of the CPU measurement.")

METRICS = (NAME, _CPU, _MEMORY, _WINDOW)
"""Of nodes and of pods."""
