"""Validation of label selectors in objects (`spec.selector` and others)."""

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kinds.metadata import validate_labels
from alcove.api.objects import Object


def validate_label_selector(selector: Object | None, path: str) -> list[FieldError]:
    """Check a selector. A missing one is valid; kinds that require one check that themselves."""
    errors: list[FieldError] = []
    if not selector:
        return errors
    if labels := selector.get("matchLabels"):
        errors += validate_labels(labels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        errors += _requirement(requirement, f"{path}.matchExpressions[{index}]")
    return errors


def _requirement(requirement: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            message = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", message))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", message))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    errors += [invalid(f"{path}.key", key, message) for message in names.label_key(key)]
    for index, value in enumerate(values):
        errors += [invalid(f"{path}.values[{index}]", value, message) for message in names.label_value(value)]
    return errors
