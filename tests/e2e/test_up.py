"""`alcove up`, `status`, `down` as a person types them; and a component that is killed comes back."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.processes import up
from alcove.testing.server import Caller, wait_until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alcove(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "alcove.processes.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    data = tmp_path / "state"
    done = alcove("up", "--data", str(data), "--port", str(free_port()))
    try:
        assert done.returncode == 0, done.stderr
        assert "export KUBECONFIG=" in done.stdout
        yield data
    finally:
        up.stop(data)


def test_up_status_kill_down_and_up_again(cluster: Path) -> None:
    wait_until(lambda: {"apiserver", "controllers", "scheduler"} <= set(up.running(cluster)))
    pids = up.running(cluster)
    assert "already up" in alcove("up", "--data", str(cluster)).stdout
    assert "apiserver" in alcove("status", "--data", str(cluster)).stdout
    caller = Caller(cluster / "admin.kubeconfig")
    caller.kubectl("create", "namespace", "kept")
    os.kill(pids["apiserver"], signal.SIGKILL)
    wait_until(lambda: up.running(cluster).get("apiserver", pids["apiserver"]) != pids["apiserver"], 20)
    wait_until(lambda: "kept" in caller.kubectl("get", "namespaces", check=False), 20)
    assert alcove("down", "--data", str(cluster)).stdout == "down\n"
    told = alcove("status", "--data", str(cluster))
    assert told.returncode == 3 and "alcove up" in told.stderr
    assert alcove("down", "--data", str(cluster)).stdout == "was not up\n"


def test_a_tenant_comes_and_goes_whole(cluster: Path) -> None:
    ring0 = Caller(cluster / "admin.kubeconfig")
    ring0.kubectl("apply", "-f", str(Path(__file__).parents[2] / "examples" / "tenant.yaml"))
    wait_until(
        lambda: ring0.get("/tenants/acme/api/v1/namespaces/default/serviceaccounts/default").status == 200
    )
    path = cluster / "acme.kubeconfig"
    done = alcove(
        "tenant",
        "kubeconfig",
        "acme",
        "--output",
        str(path),
        "--kubeconfig",
        str(cluster / "admin.kubeconfig"),
    )
    assert done.returncode == 0, done.stderr
    acme = Caller(path)
    told = acme.kubectl("get", "ns,clusterrole,net", "-o", "name").split()
    assert {"namespace/default", "clusterrole.rbac.authorization.k8s.io/admin-role"} <= set(told)
    assert "network.arktos.futurewei.com/default" in told
    ring0.kubectl("delete", "tenant", "acme", "--timeout=30s")
    assert "NotFound" in ring0.kubectl("get", "tenant", "acme", check=False)
    assert acme.get("/api/v1/namespaces").json.get("items", []) == []
