"""rbac.authorization.k8s.io: roles and bindings. Names only have to be valid path segments."""

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
    errors = _rules(role, namespaced=False)
    aggregation = role.get("aggregationRule")
    if aggregation is not None:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            message = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required(path, message))
        for index, selector in enumerate(selectors):
            errors += validate_label_selector(selector, f"{path}[{index}]")
    return errors


def _rules(role: Object, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(role.get("rules") or ()):
        errors += validate_rule(rule, namespaced, f"rules[{index}]")
    return errors


def validate_rule(rule: Object, namespaced: bool, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            message = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, message))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            message = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, message))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


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
    errors = one_of(ref.get("apiGroup", ""), [GROUP], "roleRef.apiGroup")
    errors += one_of(ref.get("kind", ""), kinds, "roleRef.kind")
    errors += named_required(ref.get("name", ""), names.path_segment, "roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        errors += _subject(subject, namespaced, f"subjects[{index}]")
    return errors


def _subject(subject: Object, namespaced: bool, path: str) -> list[FieldError]:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if kind == "ServiceAccount":
        errors = named_required(name, names.dns_subdomain, f"{path}.name")
        errors += one_of(group, [""], f"{path}.apiGroup")
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
        return errors
    errors = [] if name else [required(f"{path}.name")]
    if kind in ("User", "Group"):
        return errors + one_of(group, [GROUP], f"{path}.apiGroup")
    return [*errors, not_supported(f"{path}.kind", kind, SUBJECT_KINDS)]


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
