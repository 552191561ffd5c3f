"""Node selectors (of pod affinity and of volumes): terms that match labels and names of nodes."""

from alcove.api import names
from alcove.api.fields import forbidden, invalid, required
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_value


def check_node_selector(selector: Object, path: str, errors: FieldErrors) -> None:
    """Check a required selector, which has at least one term."""
    terms = selector.get("nodeSelectorTerms", ())
    if not terms:
        message = "must have at least one node selector term"
        errors.append(required(f"{path}.nodeSelectorTerms", message))
    for index, term in enumerate(terms):
        check_node_selector_term(term, f"{path}.nodeSelectorTerms[{index}]", errors)


def check_node_selector_term(
    term: Object, path: str, errors: FieldErrors, *, any_values: bool = False
) -> None:
    """Check a term. With `any_values`, for preferences, values need not be valid label values."""
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        _check_labels(requirement, any_values, f"{path}.matchExpressions[{index}]", errors)
    for index, requirement in enumerate(term.get("matchFields", ())):
        _check_fields(requirement, f"{path}.matchFields[{index}]", errors)


def _check_labels(requirement: Object, any_values: bool, path: str, errors: FieldErrors) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            message = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", message))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", message))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            message = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", message))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    check_value(requirement.get("key", ""), names.label_key, f"{path}.key", errors)
    if any_values:
        return
    for index, value in enumerate(values):
        check_value(value, names.label_value, f"{path}.values[{index}]", errors)


def _check_fields(requirement: Object, path: str, errors: FieldErrors) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", message))
    key = requirement.get("key", "")
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        check_value(value, names.dns_subdomain, f"{path}.values[{index}]", errors)
