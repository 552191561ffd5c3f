"""rbac.authorization.k8s.io: roles and bindings. Names are free but for what a path cannot hold."""

from alcove.api import names
from alcove.api.fields import FieldError, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import fill, named_required, one_of
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object

GROUP = "rbac.authorization.k8s.io"
SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


def validate_role(role: Object) -> list[FieldError]:
    return _rules(role, namespaced=True)


def validate_cluster_role(role: Object) -> list[FieldError]:
    faults = _rules(role, namespaced=False)
    aggregation = role.get("aggregationRule")
    if aggregation is not None:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            message = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            faults.append(required(path, message))
        for index, selector in enumerate(selectors):
            faults += validate_label_selector(selector, f"{path}[{index}]")
    return faults


def _rules(role: Object, namespaced: bool) -> list[FieldError]:
    faults: list[FieldError] = []
    for index, rule in enumerate(role.get("rules") or ()):
        faults += validate_rule(rule, namespaced, f"rules[{index}]")
    return faults


def validate_rule(rule: Object, namespaced: bool, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    if not rule.get("verbs"):
        faults.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            message = "namespaced rules cannot apply to non-resource URLs"
            faults.append(invalid(f"{path}.nonResourceURLs", urls, message))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            message = "rules cannot apply to both regular resources and non-resource URLs"
            faults.append(invalid(f"{path}.nonResourceURLs", urls, message))
        return faults
    if not rule.get("apiGroups"):
        faults.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        faults.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return faults


def default_binding(binding: Object) -> None:
    fill(binding.setdefault("roleRef", {}), "apiGroup", GROUP)
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            fill(subject, "apiGroup", GROUP)


def validate_role_binding(binding: Object) -> list[FieldError]:
    return _binding(binding, namespaced=True)


def validate_cluster_role_binding(binding: Object) -> list[FieldError]:
    return _binding(binding, namespaced=False)


def _binding(binding: Object, namespaced: bool) -> list[FieldError]:
    ref = binding.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    faults = one_of(ref.get("apiGroup", ""), [GROUP], "roleRef.apiGroup")
    faults += one_of(ref.get("kind", ""), kinds, "roleRef.kind")
    faults += named_required(ref.get("name", ""), names.path_segment, "roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        faults += _subject(subject, namespaced, f"subjects[{index}]")
    return faults


def _subject(subject: Object, namespaced: bool, path: str) -> list[FieldError]:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if kind == "ServiceAccount":
        faults = named_required(name, names.dns_subdomain, f"{path}.name")
        faults += one_of(group, [""], f"{path}.apiGroup")
        if not namespaced and not subject.get("namespace"):
            faults.append(required(f"{path}.namespace"))
        return faults
    faults = [] if name else [required(f"{path}.name")]
    if kind in ("User", "Group"):
        return faults + one_of(group, [GROUP], f"{path}.apiGroup")
    return [*faults, not_supported(f"{path}.kind", kind, SUBJECT_KINDS)]


def validate_binding_update(new: Object, old: Object) -> list[FieldError]:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]


STRATEGIES: dict[str, Strategy] = {
    "roles": Strategy(
        validate=validate_role,
        validate_name=names.name_is_path_segment,
        create_on_update=True,
    ),
    "clusterroles": Strategy(
        validate=validate_cluster_role,
        validate_name=names.name_is_path_segment,
        create_on_update=True,
    ),
    "rolebindings": Strategy(
        default=default_binding,
        validate=validate_role_binding,
        validate_update=validate_binding_update,
        validate_name=names.name_is_path_segment,
        create_on_update=True,
    ),
    "clusterrolebindings": Strategy(
        default=default_binding,
        validate=validate_cluster_role_binding,
        validate_update=validate_binding_update,
        validate_name=names.name_is_path_segment,
        create_on_update=True,
    ),
}
