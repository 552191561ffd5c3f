"""Controllers on Kubernetes' own API server, joined by `alcove plane join`; skipped without KUBEBUILDER_ASSETS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from alcove.processes.main import app
from alcove.testing.cluster import condition
from alcove.testing.controlplane import LocalControllers
from alcove.testing.kube_apiserver import KubeApiServer
from alcove.testing.server import Caller, LocalServer, wait_until

pytestmark = pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason="needs KUBEBUILDER_ASSETS")

TENANT = "initech"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
NETWORK = "/apis/arktos.futurewei.com/v1/networks/default"


class Stock:
    def __init__(self, home: LocalServer, server: KubeApiServer) -> None:
        self.home, self.server = home, server
        self.admin = Caller(server.kubeconfig())

    def alcove(self, *words: str) -> Result:
        return CliRunner(env={"KUBECONFIG": str(self.home.admin_kubeconfig)}).invoke(app, list(words))

    def join(self, kubeconfig: Path) -> Result:
        return self.alcove("plane", "join", "office", "--tenant", TENANT, "--kubeconfig", str(kubeconfig))


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    directory = tmp_path_factory.mktemp("stock")
    home = LocalServer(directory / "home")
    server = KubeApiServer(directory, Path(os.environ["KUBEBUILDER_ASSETS"]))
    with home, server, LocalControllers(home, directory):
        made = Stock(home, server)
        assert made.alcove("tenant", "create", TENANT, "--foreign").exit_code == 0
        yield made


def test_a_kubeconfig_without_all_rights_is_refused(stock: Stock) -> None:
    result = stock.join(stock.server.kubeconfig("dev", "developers"))
    assert result.exit_code == 1 and "cluster-admin" in result.stderr
    assert stock.admin.get(NETWORK).status == 404


def test_controllers_of_its_own_are_noticed(stock: Stock) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    spec = {
        "holderIdentity": "it",
        "leaseDurationSeconds": 3_600,
        "renewTime": stock.admin.get("/api/v1/namespaces/default").json["metadata"]["creationTimestamp"][:-1]
        + ".000000Z",
    }
    assert stock.admin.post(leases, {"metadata": {"name": "kube-scheduler"}, "spec": spec}).status == 201
    result = stock.join(stock.server.kubeconfig())
    assert result.exit_code == 1 and "a kube-scheduler is running" in result.stderr
    assert stock.admin.delete(f"{leases}/kube-scheduler").status == 200


def test_controllers_work_on_it(stock: Stock) -> None:
    joined = stock.join(stock.server.kubeconfig())
    assert joined.exit_code == 0, joined.stderr
    wait_until(lambda: stock.admin.get(NETWORK).json["status"]["phase"] == "Ready")
    status = stock.admin.get(NETWORK).json["status"]
    assert status["vpc"] == f"{TENANT}-default-network" and status["cidr"] == "10.128.0.0/16"
    dns = stock.admin.get("/api/v1/namespaces/kube-system/services/kube-dns-default").json
    assert dns["spec"]["clusterIP"] == status["dnsServiceIP"] and dns["spec"]["clusterIP"].startswith(
        "10.0.0."
    )
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.com/app"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "web"}, "spec": spec}
    wait_until(lambda: stock.admin.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200)
    assert stock.admin.post(DEPLOYMENTS, body).status == 201
    pods = "/api/v1/namespaces/default/pods"
    wait_until(lambda: len(stock.admin.get(pods).json["items"]) == 2)
    vpc = "mizar.com/vpc"
    wait_until(
        lambda: all(
            pod["metadata"]["annotations"][vpc] == status["vpc"]
            for pod in stock.admin.get(pods).json["items"]
        )
    )
    assert stock.admin.delete(f"{DEPLOYMENTS}/web", {"propagationPolicy": "Foreground"}).status == 200
    wait_until(lambda: stock.admin.get(pods).json["items"] == [])


def test_joining_again_changes_nothing(stock: Stock) -> None:
    before = stock.admin.get(NETWORK).json
    assert stock.join(stock.server.kubeconfig()).exit_code == 0
    assert stock.admin.get(NETWORK).json["metadata"]["uid"] == before["metadata"]["uid"]


def test_leaving_lets_go_of_its_networks(stock: Stock) -> None:
    assert stock.alcove("plane", "leave", "office").stdout == "plane/office left\n"
    tenant = stock.home.system.get(f"/api/v1/tenants/{TENANT}").json
    assert condition(tenant, "Joined") == "False"
    assert stock.admin.delete(NETWORK).status == 200
    assert stock.admin.get(NETWORK).status == 404
