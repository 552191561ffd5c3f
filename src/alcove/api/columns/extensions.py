"""Columns of API extensions: webhooks, policies, API services, device classes and claims."""

from alcove.api import objects
from alcove.api.columns.base import AGE, NAME, UNSET, at, counted
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object

WEBHOOK_CONFIGURATION = (NAME, counted("Webhooks", "Number of webhooks.", "webhooks"), AGE)


def _param_kind(obj: Object, _now: float) -> str:
    kind = objects.get(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def _param_ref(obj: Object, _now: float) -> str:
    ref = objects.get(obj, "spec", "paramRef")
    if not ref:
        return UNSET
    if not ref.get("name"):
        return f"{ref.get('namespace') or '*'}/<selector>"
    return f"{ref['namespace']}/{ref['name']}" if ref.get("namespace") else str(ref["name"])


VALIDATING_ADMISSION_POLICY = (
    NAME,
    counted("Validations", "Number of validations.", "spec", "validations"),
    PrinterColumn("ParamKind", _param_kind, description="Kind of the parameters."),
    AGE,
)

VALIDATING_ADMISSION_POLICY_BINDING = (
    NAME,
    PrinterColumn("PolicyName", at("spec", "policyName"), description="Policy of the binding."),
    PrinterColumn("ParamRef", _param_ref, description="Parameters of the binding."),
    AGE,
)


def _service(obj: Object, _now: float) -> str:
    service = objects.get(obj, "spec", "service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _available(obj: Object, _now: float) -> str:
    for condition in objects.get(obj, "status", "conditions", default=()):
        if condition.get("type") == "Available":
            status, reason = condition.get("status", "Unknown"), condition.get("reason")
            return f"{status} ({reason})" if status != "True" and reason else str(status)
    return "Unknown"


def _migrated_resource(obj: Object, _now: float) -> str:
    resource = objects.get(obj, "spec", "resource", default={})
    return ".".join(part for part in (resource.get("resource"), resource.get("group")) if part)


def _migration_state(obj: Object, _now: float) -> str:
    conditions = objects.get(obj, "status", "conditions", default=())
    return next((each.get("type", "") for each in conditions if each.get("status") == "True"), "Pending")


STORAGE_VERSION_MIGRATION = (
    NAME,
    PrinterColumn("Resource", _migrated_resource, description="Resource whose objects are migrated."),
    PrinterColumn("Status", _migration_state, description="State of the migration."),
)

DEVICE_TAINT_RULE = (
    NAME,
    PrinterColumn("Key", at("spec", "taint", "key"), description="Key of the taint."),
    PrinterColumn("Value", at("spec", "taint", "value"), description="Value of the taint."),
    PrinterColumn("Effect", at("spec", "taint", "effect"), description="Effect of the taint."),
    AGE,
)

API_SERVICE = (
    NAME,
    PrinterColumn("Service", _service, description="Server of the group version."),
    PrinterColumn("Available", _available, description="Whether the service is available."),
    AGE,
)


def _claim_state(obj: Object, _now: float) -> str:
    is_allocated = objects.get(obj, "status", "allocation") is not None
    is_deleted = bool(objects.get(obj, "metadata", "deletionTimestamp"))
    states = {
        "deleted": is_deleted,
        "allocated": is_allocated,
        "reserved": is_allocated and bool(objects.get(obj, "status", "reservedFor")),
        "pending": not is_allocated and not is_deleted,
    }
    return ",".join(state for state, holds in states.items() if holds)


RESOURCE_CLAIM = (
    NAME,
    PrinterColumn("State", _claim_state, description="Allocation state of the claim."),
    AGE,
)

RESOURCE_SLICE = (
    NAME,
    PrinterColumn("Node", at("spec", "nodeName"), description="Node of the devices."),
    PrinterColumn("Driver", at("spec", "driver"), description="Driver of the devices."),
    PrinterColumn("Pool", at("spec", "pool", "name"), description="Pool of the slice."),
    AGE,
)
