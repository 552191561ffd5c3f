"""The first objects of ring0 and of a tenant with its own server."""

from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.auth import bootstrap
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import defaults
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")


def named(tenant: TenantId) -> list[tuple[str, str]]:
    return [(obj["kind"], obj["metadata"]["name"]) for obj in bootstrap.objects(tenant)]


def test_ring0_begins_with_itself_and_its_namespaces() -> None:
    assert named(SYSTEM) == [
        ("Tenant", "system"),
        ("Namespace", "default"),
        ("Namespace", "kube-system"),
        ("Namespace", "kube-public"),
        ("Namespace", "kube-node-lease"),
    ]


def test_a_tenant_begins_with_three_namespaces_and_an_admin() -> None:
    assert named(ACME) == [
        ("Namespace", "default"),
        ("Namespace", "kube-system"),
        ("Namespace", "kube-public"),
        ("ClusterRole", "admin-role"),
        ("ClusterRoleBinding", "admin-role-binding"),
    ]
    assert {obj["metadata"]["tenant"] for obj in bootstrap.objects(ACME)} == {"acme"}


def test_the_admin_may_do_everything_in_the_tenant_and_nothing_beside() -> None:
    reader = MemoryReader()
    reader.put(ACME, defaults.CLUSTER_ROLES, bootstrap.admin_role(ACME))
    reader.put(ACME, defaults.CLUSTER_ROLE_BINDINGS, bootstrap.admin_role_binding(ACME))
    authorizer, admin = Authorizer(reader), Identity(ACME, "admin", ("system:authenticated",))
    assert authorizer.authorize(
        admin, Access("delete", ACME, "x.io", "anything", "status", "ns", "n")
    ).allowed
    assert authorizer.authorize(admin, Access("get", ACME, path="/api")).allowed
    assert not authorizer.authorize(admin, Access("get", SYSTEM, "", "pods")).allowed
    assert not authorizer.authorize(admin, Access("get", ACME, path="/logs")).allowed
