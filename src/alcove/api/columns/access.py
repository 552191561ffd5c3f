"""Columns of roles, bindings, certificate signing requests, priority classes, disruption budgets."""

from alcove.api import objects
from alcove.api.columns import duration
from alcove.api.columns.base import AGE, NAME, NONE, WIDE, Value, at, integer, joined
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object


def _role(obj: Object, _now: float) -> str:
    role = obj.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _subjects(kind: str) -> Value:
    def value(obj: Object, _now: float) -> str:
        found = [each for each in obj.get("subjects") or () if each.get("kind") == kind]
        return ", ".join(_subject(each) for each in found)

    return value


def _subject(subject: Object) -> str:
    name: str = subject.get("name", "")
    return f"{subject.get('namespace', '')}/{name}" if subject.get("kind") == "ServiceAccount" else name


BINDING = (
    NAME,
    PrinterColumn("Role", _role, description="Referenced role."),
    AGE,
    PrinterColumn("Users", _subjects("User"), description="Users of the binding.", priority=WIDE),
    PrinterColumn("Groups", _subjects("Group"), description="Groups of the binding.", priority=WIDE),
    PrinterColumn(
        "ServiceAccounts",
        _subjects("ServiceAccount"),
        description="Service accounts of the binding.",
        priority=WIDE,
    ),
)


def _requested_duration(obj: Object, _now: float) -> str:
    seconds = objects.get(obj, "spec", "expirationSeconds")
    return NONE if seconds is None else duration.human(seconds)


def _signing_state(obj: Object, _now: float) -> str:
    types = {each.get("type") for each in objects.get(obj, "status", "conditions", default=())}
    decided = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = "Failed" if "Failed" in types else ""
    issued = "Issued" if objects.get(obj, "status", "certificate") else ""
    return joined(filter(None, (decided, failed, issued)))


CERTIFICATE_SIGNING_REQUEST = (
    NAME,
    AGE,
    PrinterColumn("SignerName", at("spec", "signerName"), description="Requested signer."),
    PrinterColumn("Requestor", at("spec", "username"), description="User who requested the certificate."),
    PrinterColumn(
        "RequestedDuration", _requested_duration, description="Requested duration of the certificate."
    ),
    PrinterColumn("Condition", _signing_state, description="State of the request."),
)

_SIGNER = PrinterColumn("SignerName", at("spec", "signerName"), description="Signer.")

CLUSTER_TRUST_BUNDLE = (NAME, _SIGNER)


def _pod_request_state(obj: Object, _now: float) -> str:
    conditions = objects.get(obj, "status", "conditions", default=())
    return next((each.get("type", "") for each in conditions if each.get("status") == "True"), "Pending")


POD_CERTIFICATE_REQUEST = (
    NAME,
    PrinterColumn("PodName", at("spec", "podName"), description="Pod of the certificate."),
    PrinterColumn(
        "ServiceAccountName", at("spec", "serviceAccountName"), description="Service account of the pod."
    ),
    PrinterColumn("NodeName", at("spec", "nodeName"), description="Node of the pod."),
    _SIGNER,
    PrinterColumn("State", _pod_request_state, description="Pending, Issued, Denied or Failed."),
)

PRIORITY_CLASS = (
    NAME,
    integer("Value", "Priority; higher values are scheduled first.", "value"),
    PrinterColumn(
        "Global-Default",
        at("globalDefault", default=False),
        "boolean",
        description="Whether it is the default for pods without a class.",
    ),
    AGE,
    PrinterColumn("PreemptionPolicy", at("preemptionPolicy"), description="Preemption policy."),
)


def _budget(field: str) -> Value:
    return lambda obj, _now: str(objects.get(obj, "spec", field, default="N/A"))


POD_DISRUPTION_BUDGET = (
    NAME,
    PrinterColumn("Min Available", _budget("minAvailable"), description="Minimum number of available pods."),
    PrinterColumn(
        "Max Unavailable", _budget("maxUnavailable"), description="Maximum number of unavailable pods."
    ),
    integer("Allowed Disruptions", "Number of evictions currently allowed.", "status", "disruptionsAllowed"),
    AGE,
)
