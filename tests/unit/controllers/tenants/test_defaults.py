"""What tenants begin with."""

from alcove.api.ids import SYSTEM, TenantId
from alcove.controllers.tenants.defaults import first_objects

NETWORK = {"metadata": {"name": "default"}, "spec": {"type": "flat"}}


def test_a_tenant_has_namespaces_an_administrator_a_network_and_storage() -> None:
    made = first_objects(TenantId("acme"), NETWORK)
    names = [(str(each.resource), each.obj["metadata"]["name"]) for each in made]
    assert names == [
        ("namespaces", "default"),
        ("namespaces", "kube-system"),
        ("namespaces", "kube-public"),
        ("clusterroles.rbac.authorization.k8s.io", "admin-role"),
        ("clusterrolebindings.rbac.authorization.k8s.io", "admin-role-binding"),
        ("networks.arktos.futurewei.com", "default"),
        ("storageclasses.storage.k8s.io", "local"),
    ]
    binding = made[4].obj
    assert binding["roleRef"]["name"] == "admin-role" and binding["subjects"][0]["name"] == "admin"


def test_ring0_only_lacks_a_network_and_storage() -> None:
    assert [str(each.resource) for each in first_objects(SYSTEM, NETWORK)] == [
        "networks.arktos.futurewei.com",
        "storageclasses.storage.k8s.io",
    ]
