"""Controllers on a foreign plane: found by ring0's Secret, used by the credential in it, and by paths without tenants.

The API server is one of ours, in the role of one that knows no tenants but its user's. With Kubernetes' own it is tried in
`tests/e2e/test_foreign_planes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.api import foreign_planes
from alcove.api.foreign_planes import ForeignPlane
from alcove.api.ids import TenantId
from alcove.client.kubeconfig import load
from alcove.testing.cluster import condition
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer, wait_until

TENANT = "initech"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
SECRETS = f"/api/v1/namespaces/{foreign_planes.NAMESPACE}/secrets"
NETWORK = {"metadata": {"name": "default"}, "spec": {"type": "vpc", "ip": "10.128.0.0", "prefix": 16}}


class TwoServers:
    def __init__(self, home: LocalServer, other: LocalServer) -> None:
        self.home, self.other = home, other

    @property
    def tenant(self) -> dict[str, object]:
        found: dict[str, object] = self.home.system.get(f"/api/v1/tenants/{TENANT}").json
        return found

    def join(self) -> None:
        assert self.home.system.post(SECRETS, self.secret()).status == 201

    def join_wrong_tenant(self) -> None:
        """A Secret for a tenant of another mode: two API servers would have objects of one tenant."""
        assert self.home.system.post("/api/v1/tenants", {"metadata": {"name": "shared"}}).status == 201
        secret = self.secret()
        secret["metadata"] = {"name": "wrong", "labels": {foreign_planes.TENANT_LABEL: "shared"}}
        assert self.home.system.post(SECRETS, secret).status == 201

    def secret(self) -> dict[str, object]:
        user = load(self.other.directory / f"{TENANT}-admin.kubeconfig")
        plane = ForeignPlane(
            name="office",
            tenant=TenantId(TENANT),
            server=user.server,
            authority=user.ca_pem,
            certificate=user.certificate_pem,
            key=user.key_pem,
        )
        uid = self.home.system.get(f"/api/v1/tenants/{TENANT}").json["metadata"]["uid"]
        return foreign_planes.secret_of(plane, uid)

    def has_joined(self) -> bool:
        return condition(self.tenant, "Joined") == "True"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoServers]:
    directory: Path = tmp_path_factory.mktemp("foreign")
    home, other = LocalServer(directory / "home"), LocalServer(directory / "other")
    with home, other, LocalControllers(home, directory):
        admin = other.make_tenant(TENANT)
        namespace = {"metadata": {"name": foreign_planes.NAMESPACE}}
        assert home.system.post("/api/v1/namespaces", namespace).status == 201
        body = {"metadata": {"name": TENANT}, "spec": {"controlPlane": {"mode": "Foreign"}}}
        assert home.system.post("/api/v1/tenants", body).status == 201
        assert admin.post("/api/v1/networks", NETWORK).status in (201, 409)
        yield TwoServers(home, other)


def test_controllers_work_on_the_plane_and_ring0_provisions_its_network(servers: TwoServers) -> None:
    wait_until(lambda: condition(servers.tenant, "Joined") == "False")
    servers.join_wrong_tenant()
    servers.join()
    wait_until(servers.has_joined)
    log = (servers.home.directory.parent / "controllers.log").read_text()
    assert "plane=initech" in log and "plane=shared" not in log
    admin = servers.other.as_tenant(TENANT)
    wait_until(lambda: admin.get("/api/v1/networks/default").json["status"]["phase"] == "Ready")
    vpcs = servers.home.system.get("/apis/mizar.com/v1/vpcs").json["items"]
    assert f"{TENANT}-default-network" in [vpc["metadata"]["name"] for vpc in vpcs]
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.com/app"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    assert admin.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}).status == 201
    wait_until(lambda: len(admin.get(PODS).json["items"]) == 2)


def test_deleting_the_tenant_leaves_the_planes_objects_and_nothing_in_ring0(servers: TwoServers) -> None:
    system = servers.home.system
    assert system.delete(f"/api/v1/tenants/{TENANT}").status == 200
    wait_until(lambda: system.get(f"/api/v1/tenants/{TENANT}").status == 404)
    wait_until(lambda: system.get(f"{SECRETS}/office").status == 404)
    name = f"{TENANT}-default-network"
    wait_until(lambda: system.get(f"/apis/mizar.com/v1/vpcs/{name}").status == 404)
    admin = servers.other.as_tenant(TENANT)
    assert (
        admin.get(f"{DEPLOYMENTS}/web").status == 200 and admin.get("/api/v1/networks/default").status == 200
    )
