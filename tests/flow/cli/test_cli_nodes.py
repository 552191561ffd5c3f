"""`alcove node …`: joining by a token, draining."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from alcove.api.objects import Object
from alcove.cli.enrolment import JoinToken
from alcove.testing.server import Caller, LocalServer, wait_until

Alcove = Callable[..., Result]


def node(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {}}


def test_a_node_joins_by_a_token_over_mutual_tls(
    alcove: Alcove, cluster: LocalServer, tmp_path: Path
) -> None:
    made = alcove("node", "token")
    assert made.exit_code == 0, made.output
    assert "authority sha256:" in made.stderr and "--server" in made.stderr
    token = tmp_path / "token"
    token.write_text(made.stdout)
    words = ("node", "join", f"@{token}", "--name", "far", "--data", str(tmp_path / "node"), "--enrol-only")
    joined = alcove(*words)
    assert joined.exit_code == 0, joined.output
    path = tmp_path / "node" / "node.kubeconfig"
    assert path.stat().st_mode & 0o077 == 0
    far = Caller(path)
    assert far.post("/api/v1/nodes", node("far")).status == 201
    assert far.post("/api/v1/nodes", node("near")).status == 403
    assert far.get("/api/v1/nodes/far").status == 200
    assert far.get("/api/v1/tenants/system/namespaces/kube-system/secrets").status == 403


def test_a_joined_machine_runs_the_agent(alcove: Alcove, cluster: LocalServer, tmp_path: Path) -> None:
    token = alcove("node", "token").stdout.strip()
    words = ("node", "join", token, "--name", "joined", "--data", str(tmp_path / "node"), "--hollow")
    with (tmp_path / "log").open("w") as log:
        agent = subprocess.Popen(
            [sys.executable, "-m", "alcove.processes.main", *words, "--address", "127.0.0.1", "--port", "0"],
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: _is_ready(cluster, "joined"))
        early = alcove("node", "leave", "--data", str(tmp_path / "node"))
        assert early.exit_code == 1 and f"pid {agent.pid}" in early.stderr
    except AssertionError as error:
        raise AssertionError(f"{error}: {(tmp_path / 'log').read_text()}") from None
    finally:
        agent.terminate()
        agent.wait(90)
        cluster.system.delete("/api/v1/nodes/joined")
    left = alcove("node", "leave", "--data", str(tmp_path / "node"))
    assert left.exit_code == 0 and not (tmp_path / "node").exists(), left.output
    assert alcove("node", "leave", "--data", str(tmp_path / "node")).exit_code == 5


def _is_ready(cluster: LocalServer, name: str) -> bool:
    found = cluster.system.get(f"/api/v1/nodes/{name}")
    conditions = found.json.get("status", {}).get("conditions", []) if found.status == 200 else []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_a_token_can_do_nothing_but_ask_for_a_certificate(alcove: Alcove, cluster: LocalServer) -> None:
    token = JoinToken.decode(alcove("node", "token").stdout)
    holder = cluster.anonymous(token.bearer)
    for path in ("/api/v1/nodes", "/api/v1/namespaces", "/api/v1/tenants", "/api/v1/secrets"):
        assert holder.get(path).status == 403, path


def test_a_revoked_token_is_refused(alcove: Alcove, tmp_path: Path) -> None:
    token = alcove("node", "token").stdout.strip()
    assert alcove("node", "token", "--revoke").exit_code == 0
    words = ("node", "join", token, "--name", "late", "--data", str(tmp_path), "--enrol-only")
    done = alcove(*words)
    assert done.exit_code == 6, done.output


@pytest.mark.parametrize("text", ["", "nonsense", "alcove1.AAAA", "alcove1."])
def test_a_damaged_token_is_reported(alcove: Alcove, text: str) -> None:
    done = alcove("node", "join", text, "--name", "x", "--enrol-only")
    assert done.exit_code == 1 and "token" in done.stderr


def test_a_token_for_another_cluster_is_not_sent_anywhere(
    alcove: Alcove, cluster: LocalServer, tmp_path: Path
) -> None:
    """The server must have a certificate of the authority that the token names."""
    with LocalServer(tmp_path / "other") as other:
        theirs = other.admin_kubeconfig
        done = alcove("node", "token", "--kubeconfig", str(cluster.admin_kubeconfig))
        token = JoinToken.decode(done.stdout)
        host, port = other.address
        stolen = JoinToken(f"https://{host}:{port}", token.ca_pem, token.bearer)
        joined = alcove(
            "node", "join", stolen.encode(), "--name", "x", "--data", str(tmp_path / "n"), "--enrol-only"
        )
    assert theirs.exists() and joined.exit_code == 3
    assert "not the server" in joined.stderr


def line_of(alcove: Alcove, node: str) -> str:
    lines = alcove("node", "list").stdout.splitlines()
    return next(line for line in lines if line.split()[0] == node)


def test_draining_evicts_pods_of_all_tenants(alcove: Alcove, cluster: LocalServer) -> None:
    cluster.system.post("/api/v1/nodes", node("worker"))
    alcove("tenant", "create", "drained")
    path = "/api/v1/tenants/drained/namespaces/default/pods"
    pod = {
        "metadata": {"name": "web"},
        "spec": {"nodeName": "worker", "containers": [{"name": "c", "image": "i"}]},
    }
    assert cluster.system.post(path, pod).status == 201
    refused = alcove("node", "drain", "worker")
    assert refused.exit_code == 1 and "drained/default/web" in refused.stderr and "--force" in refused.stderr
    assert cluster.system.get(f"{path}/web").status == 200
    done = alcove("node", "drain", "worker", "--force", "--grace-period", "0")
    assert done.exit_code == 0, done.output
    assert "evicting drained/default/web" in done.stdout
    assert "SchedulingDisabled" in line_of(alcove, "worker")
    assert alcove("node", "uncordon", "worker").exit_code == 0
    assert "SchedulingDisabled" not in line_of(alcove, "worker")
