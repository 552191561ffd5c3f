"""Tenants come with all their first objects, and go with everything that is in them."""

import re
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.store.sqlite_rows import DELETED
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer, ServerResponse, wait_until

_NUMBERS = count()
HELD = {"metadata": {"name": "held", "finalizers": ["kubernetes.io/pvc-protection"]}, "rules": []}
"""By a finalizer of ring0's that nobody takes off such an object."""
NAMESPACES = ("default", "kube-public", "kube-system")


@pytest.fixture
def name() -> str:
    return f"life-{next(_NUMBERS)}"


def make(server: LocalServer, name: str) -> None:
    answer = server.system.post("/api/v1/tenants", {"metadata": {"name": name}})
    assert answer.status == 201, answer.body
    wait_until(lambda: is_ready(server, name))


def is_ready(server: LocalServer, name: str) -> bool:
    """Everything of both levels is there."""
    paths = [f"/api/v1/tenants/{name}/namespaces/{each}" for each in NAMESPACES]
    paths = [
        f"{path}/{what}"
        for path in paths
        for what in ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
    ]
    paths += [
        f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}/clusterroles/admin-role",
        f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}/clusterrolebindings/admin-role-binding",
        f"/apis/arktos.futurewei.com/v1/tenants/{name}/networks/default",
    ]
    return all(server.system.get(path).status == 200 for path in paths)


def delete(server: LocalServer, name: str) -> None:
    assert server.system.delete(f"/api/v1/tenants/{name}").status == 200
    wait_until(lambda: server.system.get(f"/api/v1/tenants/{name}").status == 404)


def conditions(answer: ServerResponse) -> dict[str, dict[str, str]]:
    return {each["type"]: each for each in answer.json["status"].get("conditions", [])}


def test_a_tenant_gets_all_its_first_objects(control_plane: LocalServer, name: str) -> None:
    make(control_plane, name)
    messages = control_plane.as_tenant(name).kubectl("get", "ns,net", "-o", "name").split()
    assert messages[:3] == [f"namespace/{each}" for each in NAMESPACES]
    assert messages[3].partition("/")[0] in ("network", "network.arktos.futurewei.com")
    path = f"/api/v1/tenants/{name}"
    wait_until(lambda: conditions(control_plane.system.get(path))["Initialized"]["status"] == "True")
    delete(control_plane, name)


def test_its_administrator_may_do_everything_in_it(control_plane: LocalServer, name: str) -> None:
    make(control_plane, name)
    admin = control_plane.as_tenant(name)
    assert admin.kubectl("auth", "can-i", "*", "*").strip() == "yes"
    admin.kubectl("create", "namespace", "web")
    wait_until(lambda: admin.get("/api/v1/namespaces/web/serviceaccounts/default").status == 200)
    admin.kubectl("create", "configmap", "-n", "web", "settings")
    delete(control_plane, name)


def test_what_its_administrator_deletes_stays_deleted(control_plane: LocalServer, name: str) -> None:
    make(control_plane, name)
    control_plane.as_tenant(name).kubectl("delete", "network", "default")
    control_plane.system.patch(f"/api/v1/tenants/{name}", {"metadata": {"labels": {"look": "again"}}})
    make(control_plane, f"{name}-later")
    path = f"/apis/arktos.futurewei.com/v1/tenants/{name}/networks/default"
    assert control_plane.system.get(path).status == 404


def test_ring0_has_a_network_too(control_plane: LocalServer) -> None:
    path = "/apis/arktos.futurewei.com/v1/tenants/system/networks/default"
    wait_until(lambda: control_plane.system.get(path).status == 200)


def test_a_tenant_in_the_making_takes_over_what_is_there(control_plane: LocalServer, name: str) -> None:
    """As after a crash in the middle: what exists is no error, and is not changed."""
    control_plane.system.post("/api/v1/tenants", {"metadata": {"name": name}})
    made = {"metadata": {"name": "default"}, "spec": {"type": "vpc", "vpcID": "mine"}}
    answer = control_plane.system.post(f"/apis/arktos.futurewei.com/v1/tenants/{name}/networks", made)
    assert answer.status in (201, 409)
    wait_until(lambda: is_ready(control_plane, name))


def test_a_terminating_tenant_takes_nothing_new_and_says_what_it_waits_for(
    control_plane: LocalServer, name: str
) -> None:
    make(control_plane, name)
    held = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}/clusterroles"
    assert control_plane.system.post(held, HELD).status == 201
    control_plane.system.delete(f"/api/v1/tenants/{name}")
    refused = control_plane.system.post(f"/api/v1/tenants/{name}/namespaces", {"metadata": {"name": "late"}})
    assert refused.status == 403 and "being terminated" in refused.json["message"]
    found_conditions = wait_until(
        lambda: conditions(control_plane.system.get(f"/api/v1/tenants/{name}")).get(
            "TenantFinalizersRemaining"
        )
    )
    assert "kubernetes.io/pvc-protection in 1 resource instances" in found_conditions["message"]
    remaining = conditions(control_plane.system.get(f"/api/v1/tenants/{name}"))["TenantContentRemaining"]
    assert "clusterroles.rbac.authorization.k8s.io has 1 resource instances" in remaining["message"]
    control_plane.system.patch(f"{held}/held", {"metadata": {"finalizers": []}})
    wait_until(lambda: control_plane.system.get(f"/api/v1/tenants/{name}").status == 404)


def test_a_tenant_that_is_not_empty_cannot_be_finalized_by_anybody(
    control_plane: LocalServer, name: str
) -> None:
    make(control_plane, name)
    held = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}/clusterroles"
    control_plane.system.post(held, HELD)
    control_plane.system.delete(f"/api/v1/tenants/{name}")
    tenant = control_plane.system.get(f"/api/v1/tenants/{name}").json
    tenant["spec"]["finalizers"] = []
    tenant["metadata"].pop("resourceVersion")
    refused = control_plane.system.put(f"/api/v1/tenants/{name}/finalize", tenant)
    assert refused.status == 409 and "not empty" in refused.json["message"]
    control_plane.system.patch(f"{held}/held", {"metadata": {"finalizers": []}})
    wait_until(lambda: control_plane.system.get(f"/api/v1/tenants/{name}").status == 404)


def test_by_kubectl_alone(control_plane: LocalServer, name: str) -> None:
    tenant = f"apiVersion: v1\nkind: Tenant\nmetadata:\n  name: {name}\n"
    assert "created" in control_plane.system.kubectl("create", "-f", "-", stdin=tenant)
    wait_until(lambda: is_ready(control_plane, name))
    at = ("--server", f"https://127.0.0.1:{control_plane.address[1]}/tenants/{name}")
    message = control_plane.system.kubectl("get", "ns,clusterrole,net", *at)
    assert "namespace/kube-public" in message and "admin-role" in message and "flat" in message
    assert "Active" in control_plane.system.kubectl("get", "tenant", name)
    assert "deleted" in control_plane.system.kubectl("delete", "tenant", name, "--timeout=90s")
    gone = control_plane.system.kubectl("get", "tenant", name, check=False)
    assert f'tenants "{name}" not found' in gone
    message = control_plane.system.kubectl(
        "get", "ns,clusterrole,net", *at, "--ignore-not-found", check=False
    )
    assert "admin-role" not in message and "kube-public" not in message


def test_a_tenant_can_be_made_again_under_its_old_name(control_plane: LocalServer, name: str) -> None:
    for _ in range(3):
        make(control_plane, name)
        delete(control_plane, name)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[LocalServer, Path]]:
    """A control plane whose store may be looked into."""
    directory = tmp_path / "server"
    with LocalServer(directory) as server, LocalControllers(server, tmp_path):
        yield server, directory / "store.db"


def fill(server: LocalServer, name: str) -> None:
    """Some of everything that a tenant can have, an own namespace and a held object included."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    base = f"/api/v1/tenants/{name}"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}"
    things: list[tuple[str, Object]] = [
        (f"{base}/namespaces", {"metadata": {"name": "web"}}),
        (f"{base}/namespaces/web/serviceaccounts", {"metadata": {"name": "default"}}),
        (f"{base}/namespaces/web/pods", pod),
        (f"{base}/namespaces/web/secrets", {"metadata": {"name": "s", "finalizers": ["example.com/held"]}}),
        (f"{base}/namespaces/default/events", {
            "metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "R", "message": "m",
        }),
        (f"{rbac}/clusterroles", {"metadata": {"name": "own"}, "rules": [rule]}),
        (f"{rbac}/namespaces/web/roles", {"metadata": {"name": "own"}, "rules": [rule]}),
        (f"/apis/scheduling.k8s.io/v1/tenants/{name}/priorityclasses", {"metadata": {"name": f"high-{name}"}, "value": 7}),
        (f"/apis/coordination.k8s.io/v1/tenants/{name}/namespaces/web/leases", {"metadata": {"name": "l"}}),
    ]  # fmt: skip
    for path, obj in things:
        answer = server.system.post(path, obj)
        assert answer.status in (201, 409), answer.body
    fill_custom(server, name)


def fill_custom(server: LocalServer, name: str) -> None:
    """A custom kind with a held object, and then a webhook that nobody answers and that refuses everything."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    path = f"/apis/apiextensions.k8s.io/v1/tenants/{name}/customresourcedefinitions"
    assert server.system.post(path, definition).status == 201
    widgets = f"/apis/example.com/v1/tenants/{name}/namespaces/web/widgets"
    wait_until(lambda: server.system.get(widgets).status == 200)
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "finalizers": ["example.com/held"]},
    }
    assert server.system.post(widgets, widget).status == 201
    webhook = {
        "name": "refuse.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "*"}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    path = f"/apis/admissionregistration.k8s.io/v1/tenants/{name}/validatingwebhookconfigurations"
    answer = server.system.post(path, {"metadata": {"name": "refuse"}, "webhooks": [webhook]})
    assert answer.status == 201, answer.body


@pytest.mark.slow
def test_nothing_is_left_in_the_store(own: tuple[LocalServer, Path]) -> None:
    """A finalizer whose owner is gone included: after its time, nobody is waited for."""
    server, store = own
    before = tenants_in(store)
    make(server, "gone")
    make(server, "stays")
    fill(server, "gone")
    assert server.system.delete("/api/v1/tenants/gone").status == 200
    wait_until(lambda: server.system.get("/api/v1/tenants/gone").status == 404)
    server.stop()
    left = tenants_in(store)
    assert "gone" not in left and {"stays"} == left - before


_CURRENT = """
    SELECT resource, tenant, name, body FROM log
    WHERE change != ? AND id NOT IN (SELECT replaces FROM log)
"""


def tenants_in(store: Path) -> set[str]:
    """Whom the objects in a store file belong to, are named by, or speak of as their tenant. Records of what tenants have used outlive
    them."""
    found: set[str] = set()
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        for resource, tenant, name, body in database.execute(_CURRENT, (DELETED,)):
            if resource == "usagerecords.usage.alcove.io":
                continue
            found.add(tenant)
            found.update(re.findall(r'"tenant":"([^"]*)"', body.decode()))
            if resource == "tenants":
                found.add(name)
    return found
