"""Real pods of two tenants on one node, with the machine's kubectl: run, get, describe, delete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from alcove.testing.cluster import RealCluster, lacking
from alcove.testing.server import Caller, wait_until

_LACKING = lacking() or ("" if shutil.which("kubectl") else "needs kubectl")
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(_LACKING), reason=_LACKING or "-")]
IMAGE = "--image=alcove/busybox"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("kubectl-pods")) as running:
        yield running


@pytest.fixture(scope="module")
def tenants(cluster: RealCluster) -> tuple[Caller, Caller]:
    return cluster.make_tenant("acme"), cluster.make_tenant("beta")


def run(caller: Caller, name: str, command: str) -> None:
    caller.kubectl("run", name, IMAGE, "--restart=Never", "--", "sh", "-c", command)


def test_pods_of_two_tenants_have_one_name_and_know_nothing_of_each_other(
    cluster: RealCluster, tenants: tuple[Caller, Caller]
) -> None:
    for caller in tenants:
        run(caller, "web", "sleep 1000")
    for caller in tenants:
        caller.kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=60s")
        shown = caller.kubectl("get", "pods", "-o", "wide", "--no-headers").split()
        assert shown[:4] == ["web", "1/1", "Running", "0"] and "n1" in shown
    acme, beta = tenants
    acme.kubectl("delete", "pod", "web", "--grace-period=1", "--timeout=60s")
    assert "not found" in acme.kubectl("get", "pod", "web", check=False)
    assert "Running" in beta.kubectl("get", "pod", "web")
    beta.kubectl("delete", "pod", "web", "--grace-period=1", "--timeout=60s")
    wait_until(lambda: not list((cluster.nodes[0].data / "snapshots").iterdir()))


def test_describe_shows_what_happened(tenants: tuple[Caller, Caller]) -> None:
    acme, _ = tenants
    run(acme, "short", "echo bye > /dev/termination-log; exit 7")
    wait_until(lambda: "Failed" in acme.kubectl("get", "pod", "short", "-o", "jsonpath={.status.phase}"), 60)
    words = ("Exit Code:    7", "Message:", "bye", "Reason:", "Error", "Scheduled", "Started", "n1/")
    # Events are written after what they tell of.
    wait_until(lambda: all(word in acme.kubectl("describe", "pod", "short") for word in words))
    acme.kubectl("delete", "pod", "short")


def test_a_job_and_a_deployment_run_to_their_ends(tenants: tuple[Caller, Caller]) -> None:
    _, beta = tenants
    beta.kubectl("create", "job", "once", IMAGE, "--", "sh", "-c", "exit 0")
    beta.kubectl("wait", "job/once", "--for=condition=Complete", "--timeout=60s")
    beta.kubectl("create", "deployment", "web", IMAGE, "--replicas=2", "--", "sleep", "1000")
    beta.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    beta.kubectl("delete", "deployment/web", "job/once", "--timeout=60s")


def test_nodes_are_ready_and_say_what_they_run(cluster: RealCluster) -> None:
    shown = cluster.server.system.kubectl("get", "nodes", "-o", "wide", "--no-headers")
    assert "Ready" in shown and "alcove://" in shown
    described = cluster.server.system.kubectl("describe", "node", "n1")
    assert "KubeletReady" in described and "alcove/busybox" not in described.partition("Conditions")[0]
