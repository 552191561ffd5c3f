"""Compiled policies: subjects, namespaces, reasons, broken bindings, and bounds."""

import pytest

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from alcove.apiserver.rbac.policy import NAMESPACES_MAX, RESULTS_MAX, AccessDecision, RbacPolicy, RbacQuery
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
PODS = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]


def binding(role: str, kind: str, *subjects: Object, name: str = "b", namespace: str = "") -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"metadata": metadata, "roleRef": {"kind": kind, "name": role}, "subjects": list(subjects)}


def subject(kind: str, name: str, namespace: str = "") -> Object:
    return {"kind": kind, "name": name, **({"namespace": namespace} if namespace else {})}


def ask(reader: MemoryReader, user: str, *groups: str, namespace: str = "", name: str = "") -> AccessDecision:
    query = RbacQuery(user, groups, "get", "", "pods", "", namespace)
    result = RbacPolicy(ACME, reader).evaluate(query)
    return result.always or result.by_name.get(name, result.otherwise)


@pytest.fixture
def reader() -> MemoryReader:
    reader = MemoryReader()
    reader.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "pods"}, "rules": PODS})
    reader.put(ACME, ROLES, {"metadata": {"name": "pods-here", "namespace": "ns"}, "rules": PODS})
    return reader


@pytest.mark.parametrize(
    ("bound", "user", "groups", "allowed", "reason"),
    [
        (subject("User", "ann"), "ann", (), True, 'User "ann"'),
        (subject("User", "ann"), "bob", ("ann",), False, ""),
        (subject("Group", "dev"), "bob", ("ops", "dev"), True, 'Group "dev"'),
        (subject("Group", "dev"), "dev", (), False, ""),
        (
            subject("ServiceAccount", "ci", "ns"),
            "system:serviceaccount:ns:ci",
            (),
            True,
            'ServiceAccount "ci/ns"',
        ),
        (subject("ServiceAccount", "ci", "ns"), "system:serviceaccount:other:ci", (), False, ""),
        (subject("ServiceAccount", "ci"), "system:serviceaccount::ci", (), False, ""),
        (subject("Robot", "ann"), "ann", (), False, ""),
    ],
)
def test_subjects(
    reader: MemoryReader, bound: Object, user: str, groups: tuple[str, ...], allowed: bool, reason: str
) -> None:
    reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding("pods", "ClusterRole", bound))
    found = ask(reader, user, *groups)
    assert found.allowed is allowed
    if allowed:
        assert found.reason == f'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "pods" to {reason}'


@pytest.mark.parametrize(("kind", "role"), [("Role", "pods-here"), ("ClusterRole", "pods")])
def test_a_role_binding_counts_in_its_namespace_only(reader: MemoryReader, kind: str, role: str) -> None:
    reader.put(ACME, ROLE_BINDINGS, binding(role, kind, subject("User", "ann"), namespace="ns"))
    assert ask(reader, "ann", namespace="ns") == AccessDecision(
        True, f'RBAC: allowed by RoleBinding "b/ns" of {kind} "{role}" to User "ann"'
    )
    assert not ask(reader, "ann", namespace="other").allowed
    assert not ask(reader, "ann").allowed


def test_a_service_account_subject_defaults_to_the_bindings_namespace(reader: MemoryReader) -> None:
    bound = binding("pods-here", "Role", subject("ServiceAccount", "ci"), namespace="ns")
    reader.put(ACME, ROLE_BINDINGS, bound)
    assert ask(reader, "system:serviceaccount:ns:ci", namespace="ns").allowed
    assert not ask(reader, "system:serviceaccount:other:ci", namespace="ns").allowed


def test_a_cluster_role_binding_cannot_use_a_namespaces_role(reader: MemoryReader) -> None:
    reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding("pods-here", "Role", subject("User", "ann")))
    assert not ask(reader, "ann", namespace="ns").allowed


def test_names_narrow_a_rule(reader: MemoryReader) -> None:
    reader.put(
        ACME,
        CLUSTER_ROLES,
        {"metadata": {"name": "pods"}, "rules": [{**PODS[0], "resourceNames": ["a", "b"]}]},
    )
    reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding("pods", "ClusterRole", subject("User", "ann")))
    assert ask(reader, "ann", name="a").allowed and ask(reader, "ann", name="b").allowed
    assert not ask(reader, "ann", name="c").allowed
    assert not ask(reader, "ann").allowed


def test_a_binding_to_a_missing_role_is_reported_to_its_subjects(reader: MemoryReader) -> None:
    reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding("gone", "ClusterRole", subject("User", "ann")))
    message = 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    assert ask(reader, "ann") == AccessDecision(False, message)
    assert ask(reader, "bob") == AccessDecision(False)


def test_other_tenants_roles_are_not_seen(reader: MemoryReader) -> None:
    other = TenantId("other")
    reader.put(other, CLUSTER_ROLES, {"metadata": {"name": "theirs"}, "rules": PODS})
    reader.put(other, CLUSTER_ROLE_BINDINGS, binding("pods", "ClusterRole", subject("User", "ann")))
    reader.put(
        ACME, CLUSTER_ROLE_BINDINGS, binding("theirs", "ClusterRole", subject("User", "ann"), name="c")
    )
    assert not ask(reader, "ann").allowed


def test_the_cache_is_bounded(reader: MemoryReader) -> None:
    policy = RbacPolicy(ACME, reader)
    for n in range(3 * RESULTS_MAX):
        policy.evaluate(RbacQuery("ann", (), "get", "", f"r{n}"))
    assert len(policy.results) <= RESULTS_MAX
    for n in range(2 * NAMESPACES_MAX):
        assert not policy.binds_in(f"ns{n}")
    assert len(policy._namespaces) <= NAMESPACES_MAX


def test_a_role_with_no_rules_and_a_binding_with_no_subjects_are_harmless(reader: MemoryReader) -> None:
    reader.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "none"}})
    reader.put(
        ACME,
        CLUSTER_ROLE_BINDINGS,
        {"metadata": {"name": "x"}, "roleRef": {"kind": "ClusterRole", "name": "none"}},
    )
    reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding("none", "ClusterRole", subject("User", "ann")))
    assert not ask(reader, "ann").allowed
