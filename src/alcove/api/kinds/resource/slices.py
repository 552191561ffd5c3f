"""ResourceSlices: the devices of a driver on one node, or accessible from several nodes."""

import re
from collections.abc import Callable

from alcove.api import names, quantity
from alcove.api.fields import FieldError, invalid, required, too_long, too_many
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import named, unchanged
from alcove.api.kinds.core.nodeselectors import check_node_selector
from alcove.api.kinds.resource.devices import (
    driver_name,
    each_named,
    qualified_name,
    validate_taint,
)
from alcove.api.objects import Object, get
from alcove.api.validation import NOT_NEGATIVE, NOT_POSITIVE

DEVICES_MAX = 128
DEVICES_WITH_TAINTS_OR_COUNTERS_MAX = 64
ATTRIBUTES_AND_CAPACITIES_MAX = 32
TAINTS_MAX = 16
COUNTER_SETS_MAX = 8
COUNTERS_MAX = 32
TEXT_LENGTH_MAX_BYTES = 64

_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_OF = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_VALUES = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


def validate_slice(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = driver_name(spec.get("driver", ""), "spec.driver") + _pool(spec.get("pool") or {})
    errors += _nodes(spec)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices or ())
    maximum = DEVICES_WITH_TAINTS_OR_COUNTERS_MAX if advanced else DEVICES_MAX
    errors += each_named(devices or (), maximum, _device, "spec.devices")
    return errors + each_named(counters or (), COUNTER_SETS_MAX, _counter_set, "spec.sharedCounters")


def pool_name(name: str, path: str) -> list[FieldError]:
    """Check DNS subdomains separated by slashes."""
    if not name:
        return [required(path)]
    long = len(name.encode()) > names.SUBDOMAIN_LENGTH_MAX
    errors = [too_long(path, names.SUBDOMAIN_LENGTH_MAX)] if long else []
    return errors + [error for part in name.split("/") for error in named(part, names.dns_subdomain, path)]


def _pool(pool: Object) -> list[FieldError]:
    errors = pool_name(pool.get("name", ""), "spec.pool.name")
    if pool.get("resourceSliceCount", 0) <= 0:
        path, count = "spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0)
        errors.append(invalid(path, count, NOT_POSITIVE))
    if pool.get("generation", 0) < 0:
        message = "must be greater than or equal to zero"
        errors.append(invalid("spec.pool.generation", pool["generation"], message))
    return errors


def _nodes(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    set_fields = [f"`{field}`" for field in _WHERE if spec.get(field)]
    if spec.get("nodeName") == "":
        message = "must be either unset or set to a non-empty string"
        errors.append(invalid("spec.nodeName", "", message))
    elif "nodeName" in spec:
        errors += named(spec["nodeName"], names.dns_subdomain, "spec.nodeName")
    if spec.get("nodeSelector") is not None:
        check_node_selector(spec["nodeSelector"], "spec.nodeSelector", errors)
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        if len(terms) != 1:
            message = "must have exactly one node selector term"
            errors.append(invalid("spec.nodeSelector.nodeSelectorTerms", terms, message))
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False:
            errors.append(invalid(f"spec.{field}", False, "must be either unset or set to true"))
    if not set_fields:
        errors.append(required("spec", _ONE_OF))
    elif len(set_fields) > 1:
        message = f"{_ONE_OF}, but multiple fields are set"
        errors.append(invalid("spec", f"{{{', '.join(set_fields)}}}", message))
    return errors


def _device(device: Object, path: str) -> list[FieldError]:
    errors = named(device.get("name", ""), names.dns_label, f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > ATTRIBUTES_AND_CAPACITIES_MAX:
        message = (
            f"the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES_MAX}"
        )
        errors.append(invalid(path, len(attributes) + len(capacity), message))
    for key, attribute in attributes.items():
        where = f"{path}.attributes[{key}]"
        errors += qualified_name(key, where) + _attribute(attribute, where)
    for key in capacity:
        errors += qualified_name(key, f"{path}.capacity[{key}]")
    taints = device.get("taints") or ()
    if len(taints) > TAINTS_MAX:
        errors.append(too_many(f"{path}.taints", len(taints), TAINTS_MAX))
    for index, taint in enumerate(taints):
        errors += validate_taint(taint, f"{path}.taints[{index}]")
    if device.get("nodeName"):
        errors += named(device["nodeName"], names.dns_subdomain, f"{path}.nodeName")
    return errors


def _attribute(attribute: Object, path: str) -> list[FieldError]:
    set_fields = [field for field in _VALUES if field in attribute]
    errors: list[FieldError] = []
    for field in set_fields:
        value, where = attribute[field], f"{path}.{field}"
        if field.endswith("s") and not value:
            errors.append(invalid(where, value, "must not be empty if specified"))
        items = value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, str):
                errors += _text(item, field.startswith("version"), where)
    if len(set_fields) != 1:
        errors.append(invalid(path, attribute if set_fields else "", "exactly one value must be specified"))
    return errors


def _text(text: str, is_version: bool, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if is_version and not _SEMVER.fullmatch(text):
        errors.append(invalid(path, text, "must be a string compatible with semver.org spec 2.0.0"))
    if len(text.encode()) > TEXT_LENGTH_MAX_BYTES:
        errors.append(too_long(path, TEXT_LENGTH_MAX_BYTES))
    return errors


def _counter_set(counters: Object, path: str) -> list[FieldError]:
    errors = named(counters.get("name", ""), names.dns_label, f"{path}.name")
    entries = counters.get("counters") or {}
    if not entries:
        errors.append(required(f"{path}.counters"))
    if len(entries) > COUNTERS_MAX:
        return [*errors, too_many(f"{path}.counters", len(entries), COUNTERS_MAX)]
    for key, counter in entries.items():
        where = f"{path}.counters[{key}]"
        errors += named(key, names.dns_label, where)
        if "value" in counter and quantity.of(counter["value"]).nano < 0:
            errors.append(invalid(f"{where}.value", counter["value"], NOT_NEGATIVE))
    return errors


def validate_slice_update(new: Object, old: Object) -> list[FieldError]:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    errors = unchanged(now.get("pool") or {}, before.get("pool") or {}, "spec.pool", "name")
    return errors + unchanged(now, before, "spec", "driver", "nodeName")


def _selectable(field: str) -> Callable[[Object], str]:
    return lambda obj: str(get(obj, "spec", field, default=""))


STRATEGIES: dict[str, Strategy] = {
    "resourceslices": Strategy(
        validate=validate_slice,
        validate_update=validate_slice_update,
        fields={f"spec.{field}": _selectable(field) for field in ("nodeName", "driver")},
        counts_generation=True,
    ),
}
