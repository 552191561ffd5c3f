"""LimitRanges: allowed and default resources of a namespace's pods, containers and claims."""

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.core.resources import (
    allows_overcommit,
    check_container_resource_name,
    check_resource_name,
    default_resource_list,
)
from alcove.api.objects import Object
from alcove.api.quantity import ONE, Quantity
from alcove.api.validation import FieldErrors, read_quantity

_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_REQUEST = "defaultRequest"
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", _REQUEST, _REQUEST, _REQUEST, "min value {} is greater than default request value {}"),
    (_REQUEST, "max", _REQUEST, _REQUEST, "default request value {} is greater than max value {}"),
    (
        _REQUEST,
        "default",
        _REQUEST,
        _REQUEST,
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""(lower field, upper field, field of the error, field whose value is shown, message)"""


def _default(limit_range: Object) -> None:
    for limit in limit_range.setdefault("spec", {}).get("limits", ()):
        for field in _AMOUNTS:
            if field in limit:
                default_resource_list(limit[field])
        if limit.get("type") == "Container":
            _default_container(limit)


def _default_container(limit: Object) -> None:
    defaults = {**limit.get("max", {}), **limit.get("default", {})}
    requests = {**limit.get("min", {}), **defaults, **limit.get("defaultRequest", {})}
    for field, amounts in (("default", defaults), ("defaultRequest", requests)):
        if amounts:
            limit[field] = amounts


def _validate(limit_range: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, limit in enumerate(limit_range.get("spec", {}).get("limits", ())):
        path, kind = f"spec.limits[{index}]", limit.get("type", "")
        _check_type(kind, seen, f"{path}.type", errors)
        _check_limit(limit, kind, path, errors)
    return errors


def _check_type(kind: str, seen: set[str], path: str, errors: FieldErrors) -> None:
    if messages := names.qualified_name(kind):
        errors += [invalid(path, kind, each) for each in messages]
    elif "/" not in kind and kind not in _TYPES:
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    if kind in seen:
        errors.append(duplicate(path, kind))
    seen.add(kind)


def _check_limit(limit: Object, kind: str, path: str, errors: FieldErrors) -> None:
    rule = check_container_resource_name if kind in ("Pod", "Container") else check_resource_name
    read: dict[str, dict[str, Quantity]] = {}
    for field in _AMOUNTS:
        read[field] = {}
        if kind == "Pod" and field in ("default", "defaultRequest"):
            if limit.get(field):
                message = "may not be specified when `type` is 'Pod'"
                errors.append(forbidden(f"{path}.{field}", message))
            continue
        for resource, value in limit.get(field, {}).items():
            rule(resource, f"{path}.{field}[{resource}]", errors)
            amount = read_quantity(value, f"{path}.{field}[{resource}]", errors)
            if amount is not None:
                read[field][resource] = amount
    if kind == "PersistentVolumeClaim" and "storage" not in read["min"] and "storage" not in read["max"]:
        message = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", message))
    for resource in dict.fromkeys(resource for amounts in read.values() for resource in amounts):
        amounts_by_field = {
            field: amounts[resource] for field, amounts in read.items() if resource in amounts
        }
        _check_order(amounts_by_field, resource, path, errors)
        _check_ratio(amounts_by_field, resource, path, errors)


def _check_order(
    amounts_by_field: dict[str, Quantity], resource: str, path: str, errors: FieldErrors
) -> None:
    """Check min ≤ defaultRequest ≤ default ≤ max, for those that are set."""
    for low, high, where, shown, message in _ORDER:
        if (
            low in amounts_by_field
            and high in amounts_by_field
            and amounts_by_field[low] > amounts_by_field[high]
        ):
            field = f"{path}.{where}[{resource}]"
            errors.append(
                invalid(
                    field,
                    str(amounts_by_field[shown]),
                    message.format(amounts_by_field[low], amounts_by_field[high]),
                )
            )
    default, request = amounts_by_field.get("default"), amounts_by_field.get("defaultRequest")
    if default is not None and request is not None and default != request and not allows_overcommit(resource):
        both = f"default value {default} must equal to defaultRequest value {request} in {resource}"
        errors.append(invalid(f"{path}.defaultRequest[{resource}]", str(request), both))


def _check_ratio(
    amounts_by_field: dict[str, Quantity], resource: str, path: str, errors: FieldErrors
) -> None:
    ratio, field = amounts_by_field.get("maxLimitRequestRatio"), f"{path}.maxLimitRequestRatio[{resource}]"
    if ratio is None:
        return
    if ratio.nano < ONE:
        errors.append(invalid(field, str(ratio), f"ratio {ratio} is less than 1"))
    if "min" in amounts_by_field and "max" in amounts_by_field and amounts_by_field["min"].nano:
        ratio_max = amounts_by_field["max"].nano / amounts_by_field["min"].nano
        if ratio.nano / ONE > ratio_max:
            errors.append(
                invalid(field, str(ratio), f"ratio {ratio} is greater than max/min = {ratio_max:f}")
            )


STRATEGY = Strategy(default=_default, validate=_validate, create_on_update=True)
