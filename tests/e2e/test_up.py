"""`alcove up`, `status`, `logs`, `down`, `destroy` as a person types them, on hollow nodes; and what is killed
comes back."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.processes import down
from alcove.processes.machine import cluster as machine_cluster
from alcove.processes.machine import supervisor_state
from alcove.processes.priorities import COMPONENT_RAISED_BY, SERVER_RAISED_BY, session_priority
from alcove.testing.claims import free_port
from alcove.testing.server import Caller, wait_until

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(400)


def alcove(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "alcove.processes.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def pids(data: Path) -> dict[str, int]:
    return {name: state.pid for name, state in supervisor_state.states(data).items() if state.pid}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One with one node, which the last test destroys."""
    data = tmp_path_factory.mktemp("up") / "state"
    done = alcove("up", "--hollow", "--no-demo", "--data", str(data), "--port", str(free_port()))
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"export KUBECONFIG={data}/admin.kubeconfig" in done.stdout
        assert "hollow" in done.stdout and "node-1" in done.stdout
        yield data
    finally:
        down.stop(data)


def test_the_processes_run_before_what_else_the_machine_does(cluster: Path) -> None:
    running = pids(cluster)
    for name, pid in running.items():
        assert os.getsid(pid) == pid, f"{name} shares its part of the cores with others"
    if not Path("/proc/self/autogroup").exists() or os.geteuid() != 0:
        pytest.skip("only root may raise a session, and some kernels do not group processes by sessions")
    found = {name: session_priority(pid) for name, pid in running.items()}
    assert found.pop("apiserver") == -SERVER_RAISED_BY
    assert set(found.values()) == {-COMPONENT_RAISED_BY}


def test_a_killed_supervisor_takes_its_processes_with_it_and_up_mends_it(cluster: Path) -> None:
    running = pids(cluster)
    holder = supervisor_state.holder(cluster)
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in running.values()))
    assert alcove("status", "--data", str(cluster)).returncode == 3
    done = alcove("up", "--hollow", "--no-demo", "--data", str(cluster))
    assert done.returncode == 0, done.stderr
    assert set(pids(cluster)) == set(running)


def test_a_killed_up_is_finished_by_the_next(tmp_path: Path) -> None:
    data = tmp_path / "state"
    words = ("up", "--hollow", "--no-demo", "--data", str(data), "--port", str(free_port()))
    half = subprocess.Popen(
        [sys.executable, "-m", "alcove.processes.main", *words], stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: supervisor_state.holder(data) is not None)
        half.kill()
        half.wait()
        done = alcove(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Ready" in alcove("status", "--data", str(data)).stdout
    finally:
        half.kill()
        down.destroy(data)
    assert not data.exists()


def test_two_clusters_live_side_by_side(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    other = tmp_path / "alcove" / "blue"
    try:
        done = alcove("up", "--hollow", "--no-demo", "--name", "blue", "--listen", "127.0.0.9")
        assert done.returncode == 0, done.stderr
        _joins_at(other, "127.0.0.9", tmp_path)
        Caller(other / "admin.kubeconfig").kubectl("create", "namespace", "blues-own")
        message = Caller(cluster / "admin.kubeconfig").kubectl("get", "namespaces")
        assert "default" in message and "blues-own" not in message
        assert alcove("destroy", "--yes", "--name", "blue").stdout == "destroyed\n"
        assert not other.exists() and pids(cluster)
    finally:
        down.destroy(other)


def _joins_at(data: Path, address: str, folder: Path) -> None:
    """A node of another machine finds the API at an address of this one's, and a certificate for it."""
    asked = machine_cluster.load(data)
    assert asked is not None
    way = ("--kubeconfig", str(data / "admin.kubeconfig"))
    token = alcove("node", "token", "--server", f"https://{address}:{asked.port}", *way).stdout.strip()
    done = alcove("node", "join", token, "--name", "far", "--data", str(folder / "far"), "--enrol-only")
    assert done.returncode == 0, done.stderr
    assert address in (folder / "far" / "node.kubeconfig").read_text()


def test_a_tenant_comes_and_goes_whole(cluster: Path) -> None:
    ring0 = Caller(cluster / "admin.kubeconfig")
    ring0.kubectl("apply", "-f", str(ROOT / "examples" / "tenant.yaml"))
    wait_until(
        lambda: ring0.get("/tenants/acme/api/v1/namespaces/default/serviceaccounts/default").status == 200
    )
    path = cluster / "acme.kubeconfig"
    way = ("--kubeconfig", str(cluster / "admin.kubeconfig"))
    done = alcove("tenant", "kubeconfig", "acme", "--output", str(path), *way)
    assert done.returncode == 0, done.stderr
    acme = Caller(path)
    wanted = {
        "namespace/default",
        "clusterrole.rbac.authorization.k8s.io/admin-role",
        "network.arktos.futurewei.com/default",
    }
    wait_until(lambda: wanted <= set(acme.kubectl("get", "ns,clusterrole,net", "-o", "name").split()))
    ring0.kubectl("delete", "tenant", "acme", "--timeout=100s")
    assert "NotFound" in ring0.kubectl("get", "tenant", "acme", check=False)
    assert acme.get("/api/v1/namespaces").json.get("items", []) == []


def test_up_status_kill_down_and_up_again(cluster: Path) -> None:
    before = pids(cluster)
    assert set(before) == {"apiserver", "controllers", "scheduler", "node-1"}
    data_option = ("--data", str(cluster))
    caller = Caller(cluster / "admin.kubeconfig")
    caller.kubectl("create", "namespace", "kept")
    # Twice is harmless: whoever runs goes on running, and more nodes come to them.
    again = alcove("up", "--hollow", "--no-demo", "--nodes", "2", *data_option)
    assert again.returncode == 0 and "already up" in again.stdout, again.stderr
    assert before.items() <= pids(cluster).items()
    assert "node-2   Ready" in caller.kubectl("get", "nodes")
    # What dies is started again.
    os.kill(before["apiserver"], signal.SIGKILL)
    wait_until(lambda: pids(cluster).get("apiserver", before["apiserver"]) != before["apiserver"])
    wait_until(lambda: "kept" in caller.kubectl("get", "namespaces", check=False))
    completed = alcove("status", *data_option)
    assert "signal SIGKILL" in completed.stdout and "node-2" in completed.stdout
    # Fewer nodes: those beyond go, and their objects with them.
    assert alcove("up", "--hollow", "--no-demo", "--nodes", "1", *data_option).returncode == 0
    wait_until(lambda: "node-2" not in caller.kubectl("get", "nodes"))
    assert "apiserver: serving" in alcove("logs", *data_option).stdout
    assert alcove("logs", "nobody", *data_option).returncode == 5
    assert alcove("down", *data_option).stdout == "down\n"
    completed = alcove("status", *data_option)
    assert completed.returncode == 3 and "alcove up" in completed.stderr
    assert alcove("down", *data_option).stdout == "already down\n"
    # State survives.
    assert alcove("up", "--hollow", "--no-demo", *data_option).returncode == 0
    assert "kept" in caller.kubectl("get", "namespaces")
    assert alcove("destroy", "--yes", *data_option).stdout == "destroyed\n"
    assert not cluster.exists()
