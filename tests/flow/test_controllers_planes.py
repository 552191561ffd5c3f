"""Controllers over two planes: a dedicated tenant's objects are on its own API server, what ring0 has for it at home."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api.ids import TenantId
from alcove.api.tenant_shards import shard_of
from alcove.client.kubeconfig import load
from alcove.testing.local import LocalProcess
from alcove.testing.scheduler import LEASE_SECONDS
from alcove.testing.server import Caller, LocalServer, wait_until

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
ROOT_CA = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
ADMIN = "/apis/rbac.authorization.k8s.io/v1/tenants/big/clusterrolebindings/admin-role-binding"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/alcove-controllers"
DEDICATED = {"metadata": {"name": "big"}, "spec": {"controlPlane": {"mode": "Dedicated"}}}


class Planes:
    """The home plane, and one of the tenant `big`, which nobody has given anything yet."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.folder = directory / "planes"
        self.folder.mkdir()
        self.home, self.own = LocalServer(directory / "home"), LocalServer(directory / "own")
        for server in (self.home, self.own):
            server.start()

    def controllers(self, *more: str) -> LocalProcess:
        options = ("--kubeconfig", str(self.home.admin_kubeconfig), "--planes", str(self.folder), *more)
        return LocalProcess("controllers", self.directory / "controllers.log", *options, *LEASE_SECONDS)

    def join(self) -> None:
        (self.folder / "big.kubeconfig").write_bytes(self.own.admin_kubeconfig.read_bytes())

    def stop(self) -> None:
        self.own.stop()
        self.home.stop()


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[Planes]:
    made = Planes(tmp_path)
    yield made
    made.stop()


def deployment(name: str, replicas: int) -> dict[str, object]:
    labels = {"app": name}
    container = {"name": "main", "image": "example.com/app"}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def pods(caller: Caller) -> int:
    answer = caller.get(PODS)
    return len(answer.json["items"]) if answer.status == 200 else 0


def replicas(caller: Caller) -> int:
    """How many the deployment says it has."""
    return int((caller.get(f"{DEPLOYMENTS}/web").json.get("status") or {}).get("replicas", 0))


def make_tenant(planes: Planes) -> Caller:
    """Ring0 makes it at home; its administrator is on its own plane."""
    assert planes.home.system.post("/api/v1/tenants", DEDICATED).status == 201
    planes.join()
    wait_until(lambda: planes.own.system.get(ADMIN).status == 200)
    return planes.own.as_tenant("big")


def test_a_dedicated_tenants_objects_are_on_its_own_plane(planes: Planes) -> None:
    with planes.controllers():
        big = make_tenant(planes)
        wait_until(lambda: big.post(DEPLOYMENTS, deployment("web", 3)).status == 201)
        wait_until(lambda: pods(big) == 3)
        wait_until(lambda: replicas(big) == 3)
        wait_until(lambda: big.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200)
        published = wait_until(lambda: big.get(f"{ROOT_CA}").json.get("data"))
        own, home = (load(each.admin_kubeconfig).ca_pem.decode() for each in (planes.own, planes.home))
        # The home plane's too: the tenant may move there.
        assert published == {"ca.crt": own + home} and own != home
        # At home there is the Tenant, and what ring0 has for it; nothing of the tenant's.
        for path in ("/api/v1/tenants/big/namespaces", "/api/v1/tenants/big/namespaces/default/pods"):
            assert planes.home.system.get(path).json["items"] == []
        wait_until(lambda: _is_initialized(planes.home))


def test_a_plane_belongs_to_the_shard_of_its_tenant(planes: Planes) -> None:
    """Its fence has one name for any number of shards: whoever had it before another number was chosen cannot write there."""
    with planes.controllers():
        big = make_tenant(planes)
        wait_until(lambda: big.post(DEPLOYMENTS, deployment("web", 2)).status == 201)
        wait_until(lambda: pods(big) == 2)
        before = planes.own.system.get(LEASE).json["spec"]["holderIdentity"]
    with planes.controllers("--shards", "2"):
        assert big.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 4}}).status == 200
        wait_until(lambda: pods(big) == 4)
        holder = planes.own.system.get(LEASE).json["spec"]["holderIdentity"]
        shard = f"{LEASE}-{shard_of(TenantId('big'), 2)}-of-2"
        assert planes.home.system.get(shard).json["spec"]["holderIdentity"] == holder != before
        assert planes.own.system.get(f"{LEASE}-0-of-2").status == 404
        late = planes.own.system.post(
            "/api/v1/tenants/big/namespaces/default/configmaps",
            {"metadata": {"name": "late"}},
            alcove_fence=f"alcove-controllers/{before}",
        )
        assert late.status == 409


def _is_initialized(server: LocalServer) -> bool:
    conditions = server.system.get("/api/v1/tenants/big").json["status"].get("conditions", [])
    return "Initialized" in [each["type"] for each in conditions if each["status"] == "True"]


def test_a_plane_gets_nothing_in_the_name_of_others(planes: Planes) -> None:
    """Neither another tenant's networks nor ring0's: they are what the home plane says."""
    with planes.controllers():
        big = make_tenant(planes)
        planes.own.make_tenant("acme")
        network = {"metadata": {"name": "theirs"}, "spec": {"type": "flat"}}
        for tenant in ("acme", "system", "big"):
            path = f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks"
            assert planes.own.system.post(path, network).status == 201
        wait_until(lambda: _phase(big.get("/apis/arktos.futurewei.com/v1/networks/theirs").json) == "Ready")
        for tenant in ("acme", "system"):
            path = f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks/theirs"
            assert _phase(planes.own.system.get(path).json) != "Ready"


def _phase(network: dict[str, Any]) -> str:
    return str((network.get("status") or {}).get("phase", ""))


def test_a_plane_that_is_away_keeps_nobody_waiting(planes: Planes) -> None:
    with planes.controllers():
        big = make_tenant(planes)
    planes.own.kill()
    with planes.controllers():
        assert (
            planes.home.system.post("/api/v1/tenants", {"metadata": {"name": "small"}, "spec": {}}).status
            == 201
        )
        wait_until(lambda: planes.home.system.get(ADMIN.replace("big", "small")).status == 200)
        small = planes.home.as_tenant("small")
        wait_until(lambda: small.post(DEPLOYMENTS, deployment("web", 2)).status == 201)
        wait_until(lambda: pods(small) == 2)
        planes.own.start()
        wait_until(lambda: big.post(DEPLOYMENTS, deployment("web", 2)).status == 201)
        wait_until(lambda: pods(big) == 2)


def test_whoever_takes_over_makes_nothing_twice(planes: Planes) -> None:
    """The plane refuses what the one before may still send; what it did is seen before anything is done."""
    first, second = planes.controllers(), planes.controllers()
    with first:
        big = make_tenant(planes)
        second.start()
        try:
            wait_until(lambda: big.post(DEPLOYMENTS, deployment("web", 60)).status == 201)
            wait_until(lambda: pods(big) > 0)
            first.send(signal.SIGSTOP)
            second.wait()
            wait_until(lambda: pods(big) == 60)
            # While the other cannot take it back.
            wait_until(lambda: _holder(planes.own) == second.pid)
            first.send(signal.SIGCONT)
            wait_until(lambda: "lost leadership" in first.log)
            wait_until(lambda: replicas(big) == 60)
            names = [each["metadata"]["name"] for each in big.get(PODS).json["items"]]
            assert len(names) == 60
        finally:
            second.stop()


def _holder(server: LocalServer) -> int:
    """The pid of the controllers that hold the lease."""
    holder = server.system.get(LEASE).json["spec"]["holderIdentity"]
    return int(holder.split("_")[1])


def test_a_tenant_that_is_deleted_leaves_nothing_on_its_plane(planes: Planes) -> None:
    with planes.controllers():
        big = make_tenant(planes)
        wait_until(lambda: big.post(DEPLOYMENTS, deployment("web", 2)).status == 201)
        wait_until(lambda: pods(big) == 2)
        planes.home.system.delete("/api/v1/tenants/big")
        wait_until(lambda: planes.home.system.get("/api/v1/tenants/big").status == 404)
        for path in ("/api/v1/tenants/big/namespaces", "/api/v1/tenants/big/namespaces/default/pods"):
            assert planes.own.system.get(path).json.get("items", []) == []
        assert planes.own.system.get("/api/v1/tenants/big").status == 404


def test_a_tenant_whose_plane_is_away_waits_for_it_to_be_emptied(planes: Planes) -> None:
    with planes.controllers():
        big = make_tenant(planes)
        wait_until(lambda: big.post(DEPLOYMENTS, deployment("web", 2)).status == 201)
    planes.own.kill()
    with planes.controllers():
        planes.home.system.delete("/api/v1/tenants/big")
        wait_until(lambda: "failed to fence plane" in (planes.directory / "controllers.log").read_text())
        assert planes.home.system.get("/api/v1/tenants/big").status == 200
        planes.own.start()
        wait_until(lambda: planes.home.system.get("/api/v1/tenants/big").status == 404)
        assert planes.own.system.get("/api/v1/tenants/big").status == 404
