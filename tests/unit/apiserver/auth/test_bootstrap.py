"""The first objects of ring0 and of a tenant with its own server."""

from pathlib import Path

from alcove.api import registry
from alcove.api.ids import SYSTEM, Key, TenantId
from alcove.apiserver.auth import bootstrap
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import defaults
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore
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


async def test_what_a_dedicated_tenant_deletes_does_not_come_back_with_the_next_start(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    try:
        kinds = registry.load()
        await bootstrap.create_missing(store, kinds, ACME, lambda _key: False)
        binding = Key(defaults.CLUSTER_ROLE_BINDINGS, ACME, "", "admin-role-binding")
        first = await store.revision()
        # The last write made all of the tenant's objects, so they have one revision.
        await store.write([WriteOp(binding, None, first)])
        before = await store.revision()
        await bootstrap.create_missing(store, kinds, ACME, lambda _key: False)
        assert await store.revision() == before
    finally:
        await store.close()


async def test_a_restart_does_not_make_the_store_read_all_keys_for_a_write_that_fails(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    kinds = registry.load()
    created = await bootstrap.create_missing(store, kinds, ACME, lambda _key: False)
    existing = {record.key for record in (await store.snapshot(created)).records}
    await store.close()
    store = await SqliteStore.open(tmp_path / "store.db")
    try:
        await bootstrap.create_missing(store, kinds, ACME, existing.__contains__)
        assert not store._commits.is_prepared
    finally:
        await store.close()


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
