"""Columns of nodes and related kinds."""

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
