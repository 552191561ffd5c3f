"""Validation of label selectors in objects (`spec.selector` and others)."""

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kinds.checks import named
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
        errors += validate_requirement(requirement, f"{path}.matchExpressions[{index}]")
    return errors


def validate_requirement(
    requirement: Object, path: str, *, compares: bool = False, any_values: bool = False
) -> list[FieldError]:
    """Check key, operator and values of a requirement on labels.

    Node selectors can also compare numbers (`compares`: Gt, Lt), and values of their preferences need not be
    valid label values (`any_values`).
    """
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
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            message = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", message))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += named(requirement.get("key", ""), names.label_key, f"{path}.key")
    for index, value in enumerate(() if any_values else values):
        errors += named(value, names.label_value, f"{path}.values[{index}]")
    return errors
