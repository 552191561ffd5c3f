"""Columns of nodes, and of what describes them."""

from alcove.api import objects
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
    PrinterColumn("Status", _status, description="Whether it takes and runs pods."),
    PrinterColumn("Roles", _roles, description="Roles that its labels name."),
    AGE,
    _info("Version", "kubeletVersion", "Version of its agent.", "", priority=0),
    PrinterColumn(
        "Internal-IP", _address("InternalIP"), description="Address among the nodes.", priority=WIDE
    ),
    PrinterColumn("External-IP", _address("ExternalIP"), description="Address for the world.", priority=WIDE),
    _info("OS-Image", "osImage", "Its operating system.", UNKNOWN),
    _info("Kernel-Version", "kernelVersion", "Its kernel.", UNKNOWN),
    _info("Container-Runtime", "containerRuntimeVersion", "What runs its containers.", UNKNOWN),
)

RUNTIME_CLASS = (
    NAME,
    PrinterColumn("Handler", at("handler"), description="Runtime that its pods are run by."),
    AGE,
)

LEASE = (NAME, PrinterColumn("Holder", at("spec", "holderIdentity"), description="Who holds the lease."), AGE)

COMPONENT_STATUS = (
    NAME,
    PrinterColumn(
        "Status",
        lambda obj, _now: _health(obj, "status"),
        description="Whether the component is healthy.",
    ),
    PrinterColumn("Message", lambda obj, _now: _health(obj, "message"), description="What it said."),
    PrinterColumn("Error", lambda obj, _now: _health(obj, "error"), description="What went wrong."),
)


def _health(obj: Object, field: str) -> str:
    healthy = [each for each in obj.get("conditions") or () if each.get("type") == "Healthy"]
    if not healthy:
        return "Unknown" if field == "status" else ""
    if field == "status":
        return {"True": "Healthy", "False": "Unhealthy"}.get(healthy[-1].get("status", ""), "Unknown")
    return str(healthy[-1].get(field, ""))
