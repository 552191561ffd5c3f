"""`alcove top`, `events`, `kubectl`, `completion`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from typer.testing import Result

from alcove.testing.server import LocalServer

Alcove = Callable[..., Result]


def run(
    cluster: LocalServer, *words: str, module: str = "alcove.processes.main"
) -> "subprocess.CompletedProcess[str]":
    """As a process: kubectl takes its place."""
    return subprocess.run(
        [sys.executable, "-m", module, "kubectl", *words],
        capture_output=True,
        text=True,
        timeout=180,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(cluster.directory),
            "KUBECONFIG": str(cluster.admin_kubeconfig),
        },
    )


@pytest.fixture
def shop(alcove: Alcove, cluster: LocalServer) -> str:
    """A tenant with a pod that asks for something."""
    if alcove("tenant", "show", "shop").exit_code:
        assert alcove("tenant", "create", "shop").exit_code == 0
        resources = {"requests": {"cpu": "500m", "memory": "64Mi"}}
        pod = {
            "metadata": {"name": "till"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        }
        assert cluster.system.post("/api/v1/tenants/shop/namespaces/default/pods", pod).status == 201
        allocatable = {"cpu": "2", "memory": "1Gi", "pods": "10"}
        cluster.system.post("/api/v1/nodes", {"metadata": {"name": "counted"}})
        cluster.system.patch("/api/v1/nodes/counted/status", {"status": {"allocatable": allocatable}})
    return "shop"


def test_top_shows_each_tenants_share(alcove: Alcove, shop: str) -> None:
    done = alcove("top", "--interval", "0.1", "-o", "json")
    assert done.exit_code == 0, done.output
    row = next(row for row in orjson.loads(done.stdout) if row["tenant"] == shop)
    assert (row["cpu"], row["memory"], row["pods"]) == ("500m", "64Mi", 1)
    assert row["share"] == row["cpu%"] == "25.0%"


def test_events_show_what_happened(alcove: Alcove, shop: str, cluster: LocalServer) -> None:
    event = {
        "metadata": {"name": "e1"},
        "type": "Warning",
        "reason": "Spilt",
        "message": "milk",
        "involvedObject": {"kind": "Pod", "name": "till", "namespace": "default"},
    }
    answer = cluster.system.post("/api/v1/tenants/shop/namespaces/default/events", event)
    assert answer.status in (201, 409), answer.body
    assert any("shop" in line and "Spilt" in line for line in alcove("events").stdout.splitlines())
    assert "milk" in alcove("events", "--tenant", shop, "--warnings").stdout


def test_kubectl_speaks_for_any_tenant(shop: str, cluster: LocalServer) -> None:
    assert "till" in run(cluster, "get", "pods", "--tenant", shop).stdout
    assert "till" in run(cluster, "--tenant=shop", "get", "pods", "-o", "name").stdout
    done = run(cluster, "get", "pods", "--all-tenants")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0][:3] == ["TENANT", "NAMESPACE", "NAME"], done.stderr
    assert ["shop", "default", "till"] in [row[:3] for row in rows]
    assert "tenant: shop" in run(cluster, "get", "pods", "--all-tenants", "-o", "yaml").stdout


def test_kubectl_creates_tenants_and_passes_its_exit_code_on(cluster: LocalServer) -> None:
    assert run(cluster, "create", "tenant", "viakubectl").stdout == "tenant/viakubectl created\n"
    again = run(cluster, "create", "tenant", "viakubectl")
    assert again.returncode == 1 and "AlreadyExists" in again.stderr
    dry = run(cluster, "create", "tenant", "dry", "--dry-run=server", "-o", "name")
    assert dry.stdout == "tenant/dry\n", dry.stderr
    assert "unknown command" in run(cluster, "frobnicate").stderr
    assert "kubectl controls" in run(cluster, "--help").stdout


def test_what_follows_a_double_dash_is_a_pods(cluster: LocalServer, shop: str) -> None:
    message = run(cluster, "exec", "till", "--tenant", shop, "--", "ls", "--tenant", "x").stderr
    # It gets as far as asking the server for the pod's node, which there is none.
    assert "till" in message and "not supported" not in message, message


def test_the_plugin_is_kubectl_in_a_tenant(shop: str, cluster: LocalServer) -> None:
    code = "import sys; from alcove.cli.kubectl import plugin; sys.argv = ['kubectl-tenant', *sys.argv[1:]]; plugin()"

    def plugin(*words: str) -> "subprocess.CompletedProcess[str]":
        home = str(cluster.directory)
        environment = {"PATH": "/usr/bin:/bin", "HOME": home, "KUBECONFIG": str(cluster.admin_kubeconfig)}
        return subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment, timeout=180
        )

    assert "till" in plugin(shop, "get", "pods").stdout
    assert "shop" in plugin("all", "get", "pods").stdout
    assert plugin().returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_every_shell(alcove: Alcove, shell: str) -> None:
    done = alcove("completion", shell)
    assert done.exit_code == 0 and "_ALCOVE_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("typed", "count", "found"),
    [("alcove ten", 1, "tenant"), ("alcove tenant show sho", 3, "shop"), ("alcove logs x", 2, "")],
)
def test_completion_completes(cluster: LocalServer, shop: str, typed: str, count: int, found: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "alcove")],
        capture_output=True,
        text=True,
        env={
            "_ALCOVE_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(count),
            "PATH": "/usr/bin:/bin",
            "HOME": str(cluster.directory),
            "KUBECONFIG": str(cluster.admin_kubeconfig),
        },
    )
    assert done.stdout.split() == ([found] if found else []), done.stderr
