"""Where a pod wants to run: affinity to nodes and to other pods, spreading, tolerations."""

from collections.abc import Mapping, Sequence

from alcove.api import names
from alcove.api.fields import duplicate, forbidden, invalid, not_supported, required
from alcove.api.kinds.core.nodeselectors import check_node_selector, check_node_selector_term
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object
from alcove.api.validation import Faults, check_positive, check_value

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION_POLICIES = ("Honor", "Ignore")


def check_affinity(affinity: Object, path: str, faults: Faults) -> None:
    if node := affinity.get("nodeAffinity"):
        _check_node_affinity(node, f"{path}.nodeAffinity", faults)
    for field in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(field):
            _check_pod_affinity(pods, f"{path}.{field}", faults)


def _check_node_affinity(affinity: Object, path: str, faults: Faults) -> None:
    if _REQUIRED in affinity:
        check_node_selector(affinity[_REQUIRED], f"{path}.{_REQUIRED}", faults)
    for index, term in enumerate(affinity.get(_PREFERRED, ())):
        where = f"{path}.{_PREFERRED}[{index}]"
        _check_weight(term, where, faults)
        check_node_selector_term(term.get("preference", {}), f"{where}.preference", faults, any_values=True)


def _check_weight(term: Object, path: str, faults: Faults) -> None:
    if not 0 < term.get("weight", 0) <= 100:
        faults.append(invalid(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100"))


def _check_pod_affinity(affinity: Object, path: str, faults: Faults) -> None:
    for index, term in enumerate(affinity.get(_REQUIRED, ())):
        _check_pod_term(term, f"{path}.{_REQUIRED}[{index}]", faults)
    for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
        where = f"{path}.{_PREFERRED}[{index}]"
        _check_weight(weighted, where, faults)
        _check_pod_term(weighted.get("podAffinityTerm", {}), f"{where}.podAffinityTerm", faults)


def _check_pod_term(term: Object, path: str, faults: Faults) -> None:
    faults += validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    faults += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces", ()):
        check_value(namespace, names.dns_label, f"{path}.namespace", faults)
    _check_label_keys(term, path, faults)
    key = term.get("topologyKey", "")
    if not key:
        faults.append(required(f"{path}.topologyKey", "can not be empty"))
    check_value(key, names.label_key, f"{path}.topologyKey", faults)


def _check_label_keys(term: Object, path: str, faults: Faults) -> None:
    """`matchLabelKeys` and `mismatchLabelKeys`: keys whose values are taken from the pod's own labels."""
    selector = term.get("labelSelector")
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field, ())
        if keys and selector is None:
            message = "must not be specified when labelSelector is not set"
            faults.append(forbidden(f"{path}.{field}", message))
        elif keys:
            for index, key in enumerate(keys):
                check_value(key, names.label_key, f"{path}.{field}[{index}]", faults)
    matched = term.get("matchLabelKeys", ())
    if matched and selector is not None:
        _check_keys_apart(matched, selector, path, faults)
    mismatched = set(term.get("mismatchLabelKeys", ()))
    for index, key in enumerate(matched):
        if key in mismatched:
            message = "exists in both matchLabelKeys and mismatchLabelKeys"
            faults.append(invalid(f"{path}.matchLabelKeys[{index}]", key, message))


def _check_keys_apart(matched: Sequence[str], selector: Object, path: str, faults: Faults) -> None:
    """A key's own expression is there once, for it was merged in; twice means the user wrote it, too."""
    positions = {key: index for index, key in enumerate(matched)}
    seen = set(selector.get("matchLabels", ()))
    for expression in selector.get("matchExpressions", ()):
        key = expression.get("key", "")
        if key in positions and key in seen:
            message = "exists in both matchLabelKeys and labelSelector"
            faults.append(invalid(f"{path}[{positions[key]}]", key, message))
        seen.add(key)


def check_spread(constraints: Sequence[Object], path: str, faults: Faults) -> None:
    """`topologySpreadConstraints`."""
    last = {
        (each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")): at
        for at, each in enumerate(constraints)
    }
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        check_positive(constraint.get("maxSkew", 0), f"{where}.maxSkew", faults)
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not key:
            faults.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in _SPREAD_ACTIONS:
            faults.append(not_supported(f"{where}.whenUnsatisfiable", action, _SPREAD_ACTIONS))
        if last[key, action] > index:
            faults.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        _check_spread_options(constraint, action, where, faults)


def _check_spread_options(constraint: Object, action: str, path: str, faults: Faults) -> None:
    domains = constraint.get("minDomains")
    if domains is not None:
        check_positive(domains, f"{path}.minDomains", faults)
        if action != "DoNotSchedule":
            message = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            faults.append(invalid(f"{path}.minDomains", domains, message))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if field in constraint and constraint[field] not in _INCLUSION_POLICIES:
            faults.append(not_supported(f"{path}.{field}", constraint[field], _INCLUSION_POLICIES))
    _check_label_keys(constraint, path, faults)
    faults += validate_label_selector(constraint.get("labelSelector"), f"{path}.labelSelector")


def check_tolerations(tolerations: Sequence[Object], path: str, faults: Faults) -> None:
    for index, toleration in enumerate(tolerations):
        _check_toleration(toleration, f"{path}[{index}]", faults)


def _check_toleration(toleration: Object, path: str, faults: Faults) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        check_value(key, names.label_key, f"{path}.key", faults)
    elif operator != "Exists":
        message = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        faults.append(invalid(f"{path}.operator", operator, message))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        message = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        faults.append(invalid(f"{path}.effect", effect, message))
    if operator == "Exists":
        if value:
            message = "value must be empty when `operator` is 'Exists'"
            faults.append(invalid(f"{path}.operator", value, message))
    elif operator in ("", "Equal"):
        if told_of_value := names.label_value(value):
            faults.append(invalid(f"{path}.operator", value, ";".join(told_of_value)))
    else:
        supported = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        faults.append(not_supported(f"{path}.operator", operator, supported))
    if effect and effect not in TAINT_EFFECTS:
        faults.append(not_supported(f"{path}.effect", effect, TAINT_EFFECTS))


def merge_label_keys(spec: Object, labels: Mapping[str, str]) -> None:
    """Writes the values of `matchLabelKeys` and `mismatchLabelKeys` into the selectors, for the pod's labels
    are known only once it is created."""
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
