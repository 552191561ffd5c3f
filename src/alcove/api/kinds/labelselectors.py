"""Label selectors as fields of objects (`spec.selector` and its like): what makes one valid."""

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kinds.metadata import validate_labels
from alcove.api.objects import Object


def validate_label_selector(selector: Object | None, path: str) -> list[FieldError]:
    """A missing selector is fine here; where one is required the kind says so."""
    faults: list[FieldError] = []
    if not selector:
        return faults
    if labels := selector.get("matchLabels"):
        faults += validate_labels(labels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        faults += _requirement(requirement, f"{path}.matchExpressions[{index}]")
    return faults


def _requirement(requirement: Object, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            message = "must be specified when `operator` is 'In' or 'NotIn'"
            faults.append(required(f"{path}.values", message))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            faults.append(forbidden(f"{path}.values", message))
    else:
        faults.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    faults += [invalid(f"{path}.key", key, message) for message in names.label_key(key)]
    for index, value in enumerate(values):
        faults += [invalid(f"{path}.values[{index}]", value, message) for message in names.label_value(value)]
    return faults
