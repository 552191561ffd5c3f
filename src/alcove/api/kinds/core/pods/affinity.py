"""Scheduling constraints of a pod: node and pod affinity, topology spread, tolerations."""

from collections.abc import Mapping, Sequence

from alcove.api import names
from alcove.api.fields import duplicate, forbidden, invalid, not_supported, required
from alcove.api.kinds.core.nodeselectors import check_node_selector, check_node_selector_term
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_positive, check_value

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION_POLICIES = ("Honor", "Ignore")


def check_affinity(affinity: Object, path: str, errors: FieldErrors) -> None:
    if node := affinity.get("nodeAffinity"):
        _check_node_affinity(node, f"{path}.nodeAffinity", errors)
    for field in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(field):
            _check_pod_affinity(pods, f"{path}.{field}", errors)


def _check_node_affinity(affinity: Object, path: str, errors: FieldErrors) -> None:
    if _REQUIRED in affinity:
        check_node_selector(affinity[_REQUIRED], f"{path}.{_REQUIRED}", errors)
    for index, term in enumerate(affinity.get(_PREFERRED, ())):
        where = f"{path}.{_PREFERRED}[{index}]"
        _check_weight(term, where, errors)
        check_node_selector_term(term.get("preference", {}), f"{where}.preference", errors, any_values=True)


def _check_weight(term: Object, path: str, errors: FieldErrors) -> None:
    if not 0 < term.get("weight", 0) <= 100:
        errors.append(invalid(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100"))


def _check_pod_affinity(affinity: Object, path: str, errors: FieldErrors) -> None:
    for index, term in enumerate(affinity.get(_REQUIRED, ())):
        _check_pod_term(term, f"{path}.{_REQUIRED}[{index}]", errors)
    for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
        where = f"{path}.{_PREFERRED}[{index}]"
        _check_weight(weighted, where, errors)
        _check_pod_term(weighted.get("podAffinityTerm", {}), f"{where}.podAffinityTerm", errors)


def _check_pod_term(term: Object, path: str, errors: FieldErrors) -> None:
    errors += validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces", ()):
        check_value(namespace, names.dns_label, f"{path}.namespace", errors)
    _check_label_keys(term, path, errors)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    check_value(key, names.label_key, f"{path}.topologyKey", errors)


def _check_label_keys(term: Object, path: str, errors: FieldErrors) -> None:
    """Check `matchLabelKeys` and `mismatchLabelKeys`: keys whose values come from the pod's labels."""
    selector = term.get("labelSelector")
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field, ())
        if keys and selector is None:
            message = "must not be specified when labelSelector is not set"
            errors.append(forbidden(f"{path}.{field}", message))
        elif keys:
            for index, key in enumerate(keys):
                check_value(key, names.label_key, f"{path}.{field}[{index}]", errors)
    matched = term.get("matchLabelKeys", ())
    if matched and selector is not None:
        _check_keys_apart(matched, selector, path, errors)
    mismatched = set(term.get("mismatchLabelKeys", ()))
    for index, key in enumerate(matched):
        if key in mismatched:
            message = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{path}.matchLabelKeys[{index}]", key, message))


def _check_keys_apart(matched: Sequence[str], selector: Object, path: str, errors: FieldErrors) -> None:
    """A key's expression occurs once, because it was merged in; twice means that the user wrote it too."""
    positions = {key: index for index, key in enumerate(matched)}
    seen = set(selector.get("matchLabels", ()))
    for expression in selector.get("matchExpressions", ()):
        key = expression.get("key", "")
        if key in positions and key in seen:
            message = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{path}[{positions[key]}]", key, message))
        seen.add(key)


def check_spread(constraints: Sequence[Object], path: str, errors: FieldErrors) -> None:
    """`topologySpreadConstraints`."""
    last = {
        (each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")): at
        for at, each in enumerate(constraints)
    }
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        check_positive(constraint.get("maxSkew", 0), f"{where}.maxSkew", errors)
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not key:
            errors.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in _SPREAD_ACTIONS:
            errors.append(not_supported(f"{where}.whenUnsatisfiable", action, _SPREAD_ACTIONS))
        if last[key, action] > index:
            errors.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        _check_spread_options(constraint, action, where, errors)


def _check_spread_options(constraint: Object, action: str, path: str, errors: FieldErrors) -> None:
    domains = constraint.get("minDomains")
    if domains is not None:
        check_positive(domains, f"{path}.minDomains", errors)
        if action != "DoNotSchedule":
            message = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(invalid(f"{path}.minDomains", domains, message))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if field in constraint and constraint[field] not in _INCLUSION_POLICIES:
            errors.append(not_supported(f"{path}.{field}", constraint[field], _INCLUSION_POLICIES))
    _check_label_keys(constraint, path, errors)
    errors += validate_label_selector(constraint.get("labelSelector"), f"{path}.labelSelector")


def check_tolerations(tolerations: Sequence[Object], path: str, errors: FieldErrors) -> None:
    for index, toleration in enumerate(tolerations):
        _check_toleration(toleration, f"{path}[{index}]", errors)


def _check_toleration(toleration: Object, path: str, errors: FieldErrors) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        check_value(key, names.label_key, f"{path}.key", errors)
    elif operator != "Exists":
        message = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{path}.operator", operator, message))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        message = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", effect, message))
    if operator == "Exists":
        if value:
            message = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(f"{path}.operator", value, message))
    elif operator in ("", "Equal"):
        if messages := names.label_value(value):
            errors.append(invalid(f"{path}.operator", value, ";".join(messages)))
    else:
        supported = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        errors.append(not_supported(f"{path}.operator", operator, supported))
    if effect and effect not in TAINT_EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, TAINT_EFFECTS))


def merge_label_keys(spec: Object, labels: Mapping[str, str]) -> None:
    """Write the values of `matchLabelKeys` and `mismatchLabelKeys` into the selectors; the pod's labels are
    known only when it is created."""
    affinity = spec.get("affinity", {})
    for field in ("podAffinity", "podAntiAffinity"):
        for weighted in affinity.get(field, {}).get(_PREFERRED, ()):
            _merge_keys(weighted.get("podAffinityTerm", {}), labels)
        for term in affinity.get(field, {}).get(_REQUIRED, ()):
            _merge_keys(term, labels)
    for constraint in spec.get("topologySpreadConstraints", ()):
        _merge_keys(constraint, labels)


def _merge_keys(term: Object, labels: Mapping[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field, ())
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*selector.get("matchExpressions", ()), *added]
