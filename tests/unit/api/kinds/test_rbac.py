"""Roles and bindings: what is filled in, what is refused, with which messages."""

import pytest

from alcove.api.kinds.rbac import STRATEGIES
from alcove.api.objects import Object

REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}


def messages(resource: str, obj: Object) -> list[str]:
    return [str(error) for error in STRATEGIES[resource].validate(obj)]


RULES: list[tuple[str, Object, list[str]]] = [
    ("roles", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, []),
    ("roles", {"apiGroups": [""], "resources": ["pods"]}, [
        "rules[0].verbs: Required value: verbs must contain at least one value"]),
    ("roles", {"verbs": ["get"]}, [
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource"]),
    ("roles", {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, [
        'rules[0].nonResourceURLs: Invalid value: ["/healthz"]: namespaced rules cannot apply to non-resource URLs']),
    ("clusterroles", {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, []),
    ("clusterroles", {"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]}, [
        'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs']),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "rule", "expected"), RULES)
def test_rules(resource: str, rule: Object, expected: list[str]) -> None:
    assert messages(resource, {"rules": [rule]}) == expected


def test_aggregation_needs_valid_selectors() -> None:
    assert messages("clusterroles", {"aggregationRule": {}}) == [
        "aggregationRule.clusterRoleSelectors: Required value: "
        "at least one clusterRoleSelector required if aggregationRule is non-nil"
    ]
    wrong = {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}
    assert messages("clusterroles", {"aggregationRule": wrong}) == [
        "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: "
        'Invalid value: "Is": not a valid selector operator'
    ]


BINDINGS: list[tuple[str, Object, list[str]]] = [
    ("rolebindings", {"roleRef": REF}, []),
    ("rolebindings", {"roleRef": {**REF, "kind": "Role"}}, []),
    ("clusterrolebindings", {"roleRef": {**REF, "kind": "Role"}}, [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"']),
    ("rolebindings", {"roleRef": {"kind": "User", "apiGroup": "x"}}, [
        'roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"',
        'roleRef.kind: Unsupported value: "User": supported values: "Role", "ClusterRole"',
        "roleRef.name: Required value"]),
    ("rolebindings", {"roleRef": {**REF, "name": "a/b"}}, [
        "roleRef.name: Invalid value: \"a/b\": may not contain '/'"]),
    ("rolebindings", {"roleRef": REF, "subjects": [{"kind": "ServiceAccount", "name": "Bad"}]}, [
        "subjects[0].name: Invalid value: \"Bad\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]),
    ("clusterrolebindings", {"roleRef": REF, "subjects": [{"kind": "ServiceAccount", "name": "sa"}]}, [
        "subjects[0].namespace: Required value"]),
    ("rolebindings", {"roleRef": REF, "subjects": [{"kind": "Robot"}]}, [
        "subjects[0].name: Required value",
        'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"']),
    ("rolebindings", {"roleRef": REF, "subjects": [{"kind": "User", "name": "u", "apiGroup": "x"}]}, [
        'subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"']),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "binding", "expected"), BINDINGS)
def test_bindings(resource: str, binding: Object, expected: list[str]) -> None:
    assert messages(resource, binding) == expected


def test_groups_are_filled_in() -> None:
    binding: Object = {
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u"},
            {"kind": "Group", "name": "g", "apiGroup": "kept"},
            {"kind": "ServiceAccount", "name": "s"},
        ],
    }
    STRATEGIES["rolebindings"].default(binding)
    assert binding["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert [subject.get("apiGroup") for subject in binding["subjects"]] == [
        "rbac.authorization.k8s.io",
        "kept",
        None,
    ]


def test_role_ref_is_immutable() -> None:
    update = STRATEGIES["clusterrolebindings"].validate_update
    assert not update({"roleRef": REF}, {"roleRef": REF})
    [error] = update({"roleRef": {**REF, "name": "edit"}}, {"roleRef": REF})
    assert error.field == "roleRef"
    assert error.body.endswith("cannot change roleRef")


def test_names_are_free_but_for_paths() -> None:
    check = STRATEGIES["roles"].validate_name
    assert check is not None
    assert not check("system:controller:Job", False)
    assert list(check("a/b", False)) == ["may not contain '/'"]
    assert list(check("..", False)) == ["may not be '..'"]
