"""DeviceTaintRules: taints of devices that a selector names."""

from alcove.api import names
from alcove.api.fields import FieldError, too_many
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import conditions, named
from alcove.api.kinds.resource.devices import driver_name, validate_taint
from alcove.api.kinds.resource.slices import pool_name
from alcove.api.objects import Object

CONDITIONS_MAX = 8


def validate_rule(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    errors: list[FieldError] = []
    if selector.get("driver") is not None:
        errors += driver_name(selector["driver"], f"{path}.driver")
    if selector.get("pool") is not None:
        errors += pool_name(selector["pool"], f"{path}.pool")
    if selector.get("device") is not None:
        errors += named(selector["device"], names.dns_label, f"{path}.device")
    return errors + validate_taint(spec.get("taint") or {}, "spec.taint")


def validate_rule_status(new: Object, _old: Object) -> list[FieldError]:
    found = (new.get("status") or {}).get("conditions") or []
    errors = conditions(found, "status.conditions")
    if len(found) > CONDITIONS_MAX:
        errors.append(too_many("status.conditions", len(found), CONDITIONS_MAX))
    return errors


STRATEGIES: dict[str, Strategy] = {
    "devicetaintrules": Strategy(
        validate=validate_rule,
        validate_status=validate_rule_status,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        counts_generation=True,
        unconditional_update=False,
    ),
}
