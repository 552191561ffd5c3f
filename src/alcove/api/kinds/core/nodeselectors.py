"""Node selectors (of pods' affinity and of volumes): terms over nodes' labels and names."""

from alcove.api import names
from alcove.api.fields import forbidden, invalid, required
from alcove.api.objects import Object
from alcove.api.validation import Faults, check_value


def check_node_selector(selector: Object, path: str, faults: Faults) -> None:
    """A required selector: at least one term."""
    terms = selector.get("nodeSelectorTerms", ())
    if not terms:
        message = "must have at least one node selector term"
        faults.append(required(f"{path}.nodeSelectorTerms", message))
    for index, term in enumerate(terms):
        check_node_selector_term(term, f"{path}.nodeSelectorTerms[{index}]", faults)


def check_node_selector_term(term: Object, path: str, faults: Faults, *, any_values: bool = False) -> None:
    """`any_values`: preferences may name values that no label can have."""
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        _check_labels(requirement, any_values, f"{path}.matchExpressions[{index}]", faults)
    for index, requirement in enumerate(term.get("matchFields", ())):
        _check_fields(requirement, f"{path}.matchFields[{index}]", faults)


def _check_labels(requirement: Object, any_values: bool, path: str, faults: Faults) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            message = "must be specified when `operator` is 'In' or 'NotIn'"
            faults.append(required(f"{path}.values", message))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            faults.append(forbidden(f"{path}.values", message))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            message = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            faults.append(required(f"{path}.values", message))
    else:
        faults.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    check_value(requirement.get("key", ""), names.label_key, f"{path}.key", faults)
    if any_values:
        return
    for index, value in enumerate(values):
        check_value(value, names.label_value, f"{path}.values[{index}]", faults)


def _check_fields(requirement: Object, path: str, faults: Faults) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator not in ("In", "NotIn"):
        faults.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        faults.append(required(f"{path}.values", message))
    key = requirement.get("key", "")
    if key != "metadata.name":
        faults.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        check_value(value, names.dns_subdomain, f"{path}.values[{index}]", faults)
