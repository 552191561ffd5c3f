"""A tenant with an API server of its own, which ring0 runs: from create to delete, with real pods."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.testing import cluster as real
from alcove.testing.cluster import RealCluster, condition
from alcove.testing.dedicated import READY_SECONDS_MAX, RING0, DedicatedTenants
from alcove.testing.server import Caller, wait_until

pytestmark = [
    pytest.mark.skipif(bool(real.lacking()), reason=real.lacking()),
    pytest.mark.slow,
]

SETS = "/apis/apps/v1/namespaces/kube-system/statefulsets"


def alcove(dedicated: DedicatedTenants, *words: str) -> str:
    via = ("--kubeconfig", str(dedicated.cluster.server.admin_kubeconfig))
    command = [sys.executable, "-m", "alcove.processes.main", *words, *via]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dedicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DedicatedTenants]:
    directory = tmp_path_factory.mktemp("dedicated")
    with RealCluster(directory) as cluster:
        yield DedicatedTenants(cluster, directory)


@pytest.fixture(scope="module")
def acme(dedicated: DedicatedTenants) -> Caller:
    return dedicated.create("acme")


def test_status_says_that_everything_is_ready(dedicated: DedicatedTenants, acme: Caller) -> None:
    names = ("CertificatesReady", "StoreReady", "APIServerReady", "Joined", "Initialized")
    wait_until(lambda: all(condition(dedicated.tenant("acme"), each) == "True" for each in names))
    status = dedicated.tenant("acme")["status"]
    assert status["endpoint"].startswith("https://10.249.")
    assert "BEGIN CERTIFICATE" in status["controlPlane"]["certificateAuthority"]
    assert "default" in acme.kubectl("get", "namespaces")
    assert acme.get("/api/v1/tenants/system/pods").status == 403


def test_pods_run_with_logs_exec_and_proxy(dedicated: DedicatedTenants, acme: Caller, tmp_path: Path) -> None:
    """At the plane's own address, and at the home plane's with the kubeconfig that `alcove tenant kubeconfig` writes."""
    command = "echo hello; mkdir /tmp/www; echo page > /tmp/www/index.html; httpd -f -p 8080 -h /tmp/www"
    real.create(acme, real.pod("web", command))
    real.ready(acme, "web", READY_SECONDS_MAX)
    written = tmp_path / "home.kubeconfig"
    alcove(dedicated, "tenant", "kubeconfig", "acme", "-o", str(written))
    for caller in (acme, Caller(written)):
        wait_until(lambda caller=caller: "hello" in caller.kubectl("logs", "web", check=False))
        assert "inside" in caller.kubectl("exec", "web", "--", "echo", "inside")
        assert [each.split()[0] for each in caller.kubectl("get", "nodes", "--no-headers").splitlines()] == [
            "n1"
        ]
        answer = caller.get("/api/v1/namespaces/default/pods/web:8080/proxy/index.html")
        assert answer.status == 200 and answer.body == b"page\n", answer.body
    assert Caller(written).kubeconfig.read_text().count("/tenants/acme") == 1


def test_another_user_is_issued_a_certificate_by_the_plane(
    dedicated: DedicatedTenants, acme: Caller, tmp_path: Path
) -> None:
    assert acme.get("/api/v1/namespaces").status == 200
    written = tmp_path / "guest.kubeconfig"
    alcove(dedicated, "tenant", "kubeconfig", "acme", "--user", "guest", "-o", str(written))
    answer = Caller(written).get("/api/v1/namespaces")
    assert answer.status == 403 and 'User "guest"' in answer.json["message"]


def test_a_killed_api_server_comes_back_with_its_objects(dedicated: DedicatedTenants, acme: Caller) -> None:
    body = {"metadata": {"name": "kept"}, "data": {"a": "b"}}
    assert acme.post("/api/v1/namespaces/default/configmaps", body).status == 201
    pid = dedicated.plane_pid("acme")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: dedicated.plane_pid("acme") not in (0, pid), READY_SECONDS_MAX)

    def kept() -> bool:
        try:
            return acme.get("/api/v1/namespaces/default/configmaps/kept").status == 200
        except OSError:
            return False

    wait_until(kept, READY_SECONDS_MAX)
    assert real.ready(acme, "web", READY_SECONDS_MAX), "its pods have not noticed"


def test_deleted_pieces_come_back(dedicated: DedicatedTenants, acme: Caller) -> None:
    secret = f"{RING0}/secrets/plane-acme.admin"
    assert dedicated.system.delete(secret).status == 200
    wait_until(lambda: dedicated.system.get(secret).status == 200, READY_SECONDS_MAX)
    before = dedicated.system.get(f"{SETS}/plane-acme").json["metadata"]["uid"]
    assert dedicated.system.delete(f"{SETS}/plane-acme").status == 200

    def replaced() -> bool:
        answer = dedicated.system.get(f"{SETS}/plane-acme")
        return answer.status == 200 and answer.json["metadata"]["uid"] != before

    wait_until(replaced, READY_SECONDS_MAX)
    wait_until(lambda: condition(dedicated.tenant("acme"), "APIServerReady") == "True", READY_SECONDS_MAX)


def test_a_deleted_tenant_leaves_nothing(dedicated: DedicatedTenants, acme: Caller) -> None:
    assert acme.get("/api/v1/namespaces").status == 200
    assert dedicated.system.delete("/api/v1/tenants/acme").status == 200
    wait_until(lambda: dedicated.system.get("/api/v1/tenants/acme").status == 404, READY_SECONDS_MAX)
    paths = (
        f"{SETS}/plane-acme",
        f"{RING0}/secrets/plane-acme",
        f"{RING0}/persistentvolumeclaims/plane-acme",
    )
    for path in (*paths, f"{RING0}/secrets/plane-acme.admin", f"{RING0}/pods/plane-acme-0"):
        wait_until(lambda path=path: dedicated.system.get(path).status == 404, READY_SECONDS_MAX)
    wait_until(lambda: dedicated.plane_pid("acme") == 0, READY_SECONDS_MAX)
    wait_until(lambda: not dedicated.system.get("/api/v1/persistentvolumes").json["items"], READY_SECONDS_MAX)
