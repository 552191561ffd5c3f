"""Node selectors (of pod affinity and of volumes): terms that match labels and names of nodes."""

from alcove.api import names
from alcove.api.fields import invalid, required
from alcove.api.kinds.labelselectors import validate_requirement
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
        requirement_path = f"{path}.matchExpressions[{index}]"
        errors += validate_requirement(requirement, requirement_path, compares=True, any_values=any_values)
    for index, requirement in enumerate(term.get("matchFields", ())):
        _check_fields(requirement, f"{path}.matchFields[{index}]", errors)


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
