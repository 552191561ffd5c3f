"""Columns of who may do what: roles, bindings, signing requests, priorities, budgets."""

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
    PrinterColumn("Role", _role, description="Role that is given."),
    AGE,
    PrinterColumn("Users", _subjects("User"), description="Users it is given to.", priority=WIDE),
    PrinterColumn("Groups", _subjects("Group"), description="Groups it is given to.", priority=WIDE),
    PrinterColumn(
        "ServiceAccounts",
        _subjects("ServiceAccount"),
        description="Service accounts it is given to.",
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
    PrinterColumn("SignerName", at("spec", "signerName"), description="Who is asked to sign."),
    PrinterColumn("Requestor", at("spec", "username"), description="Who asks."),
    PrinterColumn(
        "RequestedDuration", _requested_duration, description="How long the certificate should hold."
    ),
    PrinterColumn("Condition", _signing_state, description="What became of it."),
)

PRIORITY_CLASS = (
    NAME,
    integer("Value", "Higher goes first.", "value"),
    PrinterColumn(
        "Global-Default",
        at("globalDefault", default=False),
        "boolean",
        description="Whether pods without a class have it.",
    ),
    AGE,
    PrinterColumn(
        "PreemptionPolicy", at("preemptionPolicy"), description="Whether others are evicted for its pods."
    ),
)


def _budget(field: str) -> Value:
    return lambda obj, _now: str(objects.get(obj, "spec", field, default="N/A"))


POD_DISRUPTION_BUDGET = (
    NAME,
    PrinterColumn("Min Available", _budget("minAvailable"), description="Pods that must stay."),
    PrinterColumn("Max Unavailable", _budget("maxUnavailable"), description="Pods that may be missing."),
    integer("Allowed Disruptions", "Pods that may be evicted now.", "status", "disruptionsAllowed"),
    AGE,
)
