"""Default roles: their permissions, their subjects, and how they are listed."""

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver import builtin
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import aggregate, defaults
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
CREATED = "2027-01-01T00:00:00Z"


def allows(role: str, verb: str, resource: str, group: str = "", tenant: TenantId = ACME) -> bool:
    """Whether somebody bound to a default role in a namespace may do this there."""
    reader = MemoryReader()
    binding = {
        "metadata": {"name": "b", "namespace": "ns"},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": "ann"}],
    }
    reader.put(tenant, ROLE_BINDINGS, binding)
    name, _, subresource = resource.partition("/")
    access = Access(verb, tenant, group, name, subresource, "ns", "x")
    return Authorizer(reader).authorize(Identity(tenant, "ann"), access).allowed


@pytest.mark.parametrize(
    ("verb", "resource", "group", "view", "edit", "admin"),
    [
        ("get", "pods", "", True, True, True),
        ("list", "deployments", "apps", True, True, True),
        ("get", "pods/log", "", True, True, True),
        ("get", "namespaces", "", True, True, True),
        ("watch", "networks", "arktos.futurewei.com", True, True, True),
        ("get", "secrets", "", False, True, True),
        ("create", "pods", "", False, True, True),
        ("create", "pods/exec", "", False, True, True),
        ("create", "pods/eviction", "", False, True, True),
        ("create", "serviceaccounts/token", "", False, True, True),
        ("impersonate", "serviceaccounts", "", False, True, True),
        ("update", "deployments/scale", "apps", False, True, True),
        ("patch", "ingresses", "networking.k8s.io", False, True, True),
        ("create", "rolebindings", "rbac.authorization.k8s.io", False, False, True),
        ("get", "roles", "rbac.authorization.k8s.io", False, False, True),
        ("create", "localsubjectaccessreviews", "authorization.k8s.io", False, False, True),
        ("update", "resourcequotas", "", False, False, False),
        ("delete", "namespaces", "", False, False, False),
        ("update", "pods/status", "", False, False, False),
        ("create", "networks", "arktos.futurewei.com", False, False, False),
        ("bind", "clusterroles", "rbac.authorization.k8s.io", False, False, False),
        ("escalate", "roles", "rbac.authorization.k8s.io", False, False, False),
    ],
)
def test_view_edit_admin(verb: str, resource: str, group: str, view: bool, edit: bool, admin: bool) -> None:
    found = [allows(role, verb, resource, group) for role in ("view", "edit", "admin", "cluster-admin")]
    assert found == [view, edit, admin, True]


@pytest.mark.parametrize("tenant", [ACME, SYSTEM])
def test_everybody_may_discover_and_ask_about_themselves(tenant: TenantId) -> None:
    authorizer = Authorizer(MemoryReader())
    ann = Identity(tenant, "ann", ("system:authenticated",))
    for path in ("/api", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz"):
        assert authorizer.authorize(ann, Access("get", tenant, path=path)).allowed
    access = Access("create", tenant, "authorization.k8s.io", "selfsubjectaccessreviews")
    assert authorizer.authorize(ann, access).allowed
    assert not authorizer.authorize(
        ann, Access("create", tenant, "authorization.k8s.io", "subjectaccessreviews")
    ).allowed
    assert not authorizer.authorize(ann, Access("get", tenant, "", "pods", namespace="default")).allowed
    assert not authorizer.authorize(Identity(tenant, "ann"), Access("get", tenant, path="/api")).allowed


@pytest.mark.parametrize(
    ("identity", "verb", "group", "resource", "allowed"),
    [
        (("system:node:n1", "system:nodes"), "list", "", "pods", False),
        (("system:node:n1", "system:nodes"), "update", "", "pods/status", False),
        (("system:node:n1", "system:nodes"), "delete", "", "tenants", False),
        (("system:node:n1", "system:nodes"), "update", "", "secrets", False),
        (("anybody", "system:nodes"), "get", "", "secrets", False),
        (("system:kube-scheduler",), "create", "", "pods/binding", True),
        (("system:kube-scheduler",), "get", "", "secrets", False),
        (("system:kube-controller-manager",), "create", "apps", "replicasets", True),
        (("system:kube-controller-manager",), "escalate", "rbac.authorization.k8s.io", "clusterroles", True),
        (("system:kube-controller-manager",), "impersonate", "", "users", False),
    ],
)
@pytest.mark.parametrize("tenant", [SYSTEM, ACME, TenantId("all")])
def test_ring0s_components_have_their_rights_in_every_tenant(
    identity: tuple[str, ...], verb: str, group: str, resource: str, allowed: bool, tenant: TenantId
) -> None:
    user, *groups = identity
    name, _, subresource = resource.partition("/")
    access = Access(verb, tenant, group, name, subresource, "ns")
    found = Authorizer(MemoryReader()).authorize(Identity(SYSTEM, user, tuple(groups)), access)
    assert found.allowed == allowed


@pytest.mark.parametrize("user", ["system:kube-scheduler", "system:kube-controller-manager"])
def test_in_a_tenant_the_names_of_ring0s_components_mean_nothing(user: str) -> None:
    impostor = Identity(ACME, user, ("system:nodes", "system:authenticated"))
    for tenant in (ACME, SYSTEM):
        assert not Authorizer(MemoryReader()).authorize(impostor, Access("list", tenant, "", "pods")).allowed


def test_a_tenants_role_joins_the_default_ones_by_its_label() -> None:
    reader = MemoryReader()
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rules = [{"verbs": ["get"], "apiGroups": ["acme.io"], "resources": ["widgets"]}]
    reader.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "widgets", "labels": label}, "rules": rules})
    for role in ("view", "edit", "admin"):
        subject = {"kind": "User", "name": role}
        binding = {
            "metadata": {"name": role},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [subject],
        }
        reader.put(ACME, CLUSTER_ROLE_BINDINGS, binding)
    authorizer = Authorizer(reader)
    for role in ("view", "edit", "admin"):
        access = Access("get", ACME, "acme.io", "widgets")
        assert authorizer.authorize(Identity(ACME, role), access).allowed
        assert not authorizer.authorize(Identity(TenantId("other"), role), access).allowed


def test_a_stored_role_replaces_the_built_in_one_until_it_is_deleted() -> None:
    reader = MemoryReader()
    authorizer, ann = Authorizer(reader), Identity(ACME, "ann", ("system:authenticated",))
    access = Access("get", ACME, path="/api")
    assert authorizer.authorize(ann, access).allowed
    reader.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "system:discovery"}, "rules": []})
    assert not authorizer.authorize(ann, access).allowed
    reader.remove(ACME, CLUSTER_ROLES, "", "system:discovery")
    assert authorizer.authorize(ann, access).allowed


def test_shown_with_metadata_of_the_tenants_own() -> None:
    found = builtin.get(ACME, CLUSTER_ROLES, "view", CREATED)
    theirs = builtin.get(TenantId("other"), CLUSTER_ROLES, "view", CREATED)
    assert found is not None and theirs is not None
    metadata = found["metadata"]
    assert metadata["tenant"] == "acme"
    assert metadata["selfLink"] == "/apis/rbac.authorization.k8s.io/v1/tenants/acme/clusterroles/view"
    assert metadata["creationTimestamp"] == CREATED
    assert metadata["uid"] != theirs["metadata"]["uid"]
    assert metadata["uid"] == builtin.get(ACME, CLUSTER_ROLES, "view", CREATED)["metadata"]["uid"]  # type: ignore[index]
    assert len(found["rules"]) > 10
    assert "tenant" not in defaults.built_in(ACME, CLUSTER_ROLES)["view"]["metadata"]


def test_ring0s_roles_are_not_shown_to_tenants() -> None:
    assert builtin.get(SYSTEM, CLUSTER_ROLES, "system:node", CREATED)
    assert builtin.get(ACME, CLUSTER_ROLES, "system:node", CREATED) is None
    assert builtin.get(ACME, ROLE_BINDINGS, "view", CREATED) is None


def test_every_binding_has_its_role_and_every_rule_is_well_formed() -> None:
    for tenant in (ACME, SYSTEM):
        roles = defaults.built_in(tenant, CLUSTER_ROLES)
        for binding in defaults.built_in(tenant, CLUSTER_ROLE_BINDINGS).values():
            assert binding["roleRef"]["name"] in roles
        for role in roles.values():
            rules = aggregate.aggregate(role, roles)
            assert rules, role["metadata"]["name"]
            for rule in rules:
                assert rule.verbs
                assert bool(rule.urls) != bool(rule.groups and rule.resources)


def test_a_thousand_tenants_share_the_built_in_objects() -> None:
    made = {id(defaults.built_in(TenantId(f"t{n}"), CLUSTER_ROLES)) for n in range(1000)}
    assert len(made) == 1
