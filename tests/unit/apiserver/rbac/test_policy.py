"""Compiled policies: subjects, namespaces, reasons, broken bindings, and bounds."""

import pytest

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.rbac import policy as policies
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from alcove.apiserver.rbac.policy import NAMESPACES_MAX, RESULTS_MAX, AccessDecision, RbacPolicy, RbacQuery
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
RESOURCES = (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES)
PODS = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]


def binding(role: str, kind: str, *subjects: Object, name: str = "b", namespace: str = "") -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"metadata": metadata, "roleRef": {"kind": kind, "name": role}, "subjects": list(subjects)}


def subject(kind: str, name: str, namespace: str = "") -> Object:
    return {"kind": kind, "name": name, **({"namespace": namespace} if namespace else {})}


def ask(reader: MemoryReader, user: str, *groups: str, namespace: str = "", name: str = "") -> AccessDecision:
    query = RbacQuery(user, groups, "get", "", "pods", "", namespace)
    result = RbacPolicy(ACME, reader.snapshot(ACME, RESOURCES)).evaluate(query)
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
    policy = RbacPolicy(ACME, reader.snapshot(ACME, RESOURCES))
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


def test_a_large_policy_has_the_bindings_of_all_namespaces(reader: MemoryReader) -> None:
    here = binding("pods-here", "Role", subject("User", "ann"), namespace="ns")
    reader.put(ACME, ROLE_BINDINGS, here)
    policy = RbacPolicy(ACME, reader.snapshot(ACME, RESOURCES), is_large=True)
    query = RbacQuery("ann", (), "get", "", "pods", "", "ns")
    assert policy.binds_in("ns") and not policy.binds_in("elsewhere")
    assert policy.evaluate(query).always


def test_rules_over_the_bound_grant_nothing(reader: MemoryReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "RULES_MAX", 1)
    other = [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]
    reader.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "others"}, "rules": other})
    ann = subject("User", "ann")
    reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding("pods", "ClusterRole", ann, name="z"))
    assert ask(reader, "ann").allowed
    reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding("others", "ClusterRole", ann, name="a"))
    assert not ask(reader, "ann").allowed


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("changed", ["role", "cluster role", "binding", "cluster binding", "aggregated"])
def test_a_policy_made_of_the_one_before_decides_as_a_new_one(changed: str, is_large: bool) -> None:
    cache = MemoryReader()
    secrets = [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]
    rule = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    cache.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "all"}, "aggregationRule": rule})
    cache.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "c", "labels": {"to": "all"}}, "rules": secrets})
    cache.put(ACME, ROLES, {"metadata": {"name": "r", "namespace": "ns"}, "rules": secrets})
    ann, bob = subject("User", "ann"), subject("User", "bob")
    cache.put(ACME, CLUSTER_ROLE_BINDINGS, binding("all", "ClusterRole", bob))
    cache.put(ACME, ROLE_BINDINGS, binding("r", "Role", bob, namespace="ns"))
    before = RbacPolicy(ACME, cache.snapshot(ACME, RESOURCES), is_large=is_large)
    queries = [RbacQuery(user, (), "get", "", "pods", "", "ns") for user in ("ann", "bob")]
    assert not any(before.evaluate(query).always for query in queries)
    match changed:
        case "role":
            cache.put(ACME, ROLES, {"metadata": {"name": "r", "namespace": "ns"}, "rules": PODS})
        case "cluster role":
            cache.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "all"}, "rules": PODS})
        case "aggregated":
            cache.put(
                ACME, CLUSTER_ROLES, {"metadata": {"name": "d", "labels": {"to": "all"}}, "rules": PODS}
            )
        case "binding":
            cache.put(ACME, ROLES, {"metadata": {"name": "s", "namespace": "ns"}, "rules": PODS})
            cache.put(ACME, ROLE_BINDINGS, binding("s", "Role", ann, name="c", namespace="ns"))
        case "cluster binding":
            cache.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "p"}, "rules": PODS})
            cache.put(ACME, CLUSTER_ROLE_BINDINGS, binding("p", "ClusterRole", ann, name="c"))
    after = RbacPolicy(ACME, cache.snapshot(ACME, RESOURCES), previous=before, is_large=is_large)
    assert any(after.evaluate(query).always for query in queries)
