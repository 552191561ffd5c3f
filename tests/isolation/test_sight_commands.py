"""Every command that looks into a network or at usage, for a tenant that is not the caller's: refused, and nothing is revealed."""

import pytest
from typer.testing import CliRunner

from alcove.api.node_api import flows_path, pod_path
from alcove.processes.main import app
from alcove.testing.server import LocalServer

FORBIDDEN = 6
COMMANDS = (
    ("flows", "--tenant"),
    ("flows", "--follow", "--tenant"),
    ("flows", "--pod", "default/target", "--follow", "--tenant"),
    ("drops", "--tenant"),
    ("drops", "--follow", "--tenant"),
    ("trace", "target", "--to", "10.0.0.9", "--port", "80", "--tenant"),
    ("trace", "target", "--to", "10.0.0.9", "--port", "80", "--live", "--tenant"),
    ("trace", "target", "--to", "db.default.svc", "--port", "80", "--tenant"),
    ("capture", "target", "-o", "-", "--seconds", "1", "--tenant"),
    ("usage", "--tenant"),
    ("policy", "check", "--tenant"),
    ("policy", "propose", "--from-flows", "--tenant"),
    ("network", "list", "--tenant"),
    ("network", "show"),
)


@pytest.fixture(scope="module")
def kubeconfig(server: LocalServer) -> str:
    """An attacker's; there is a tenant `watched` with a pod `target`, and none `nobody`."""
    server.make_tenant("watched")
    pod = {"metadata": {"name": "target"}, "spec": {"containers": [{"name": "c", "image": "canary"}]}}
    made = server.system.post("/api/v1/tenants/watched/namespaces/default/pods", pod)
    assert made.status == 201, made.body
    return str(server.make_tenant("watcher").kubeconfig)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words))
def test_another_tenants_network_and_usage_are_refused(
    command: tuple[str, ...], kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    real, missing = (CliRunner().invoke(app, [*command, tenant]) for tenant in ("watched", "nobody"))
    assert real.exit_code == missing.exit_code == FORBIDDEN, real.output
    assert (real.stdout, missing.stdout) == ("", "")
    assert real.stderr.replace("watched", "X") == missing.stderr.replace("nobody", "X")
    for tenant in ("all", "system"):
        refused = CliRunner().invoke(app, [*command, tenant])
        assert refused.exit_code == FORBIDDEN and refused.stdout == "", (tenant, refused.output)


@pytest.mark.parametrize("verb", ["flows", "follow", "trace", "lookup", "capture", "metrics"])
def test_a_node_is_not_asked_for_a_tenant(verb: str, server: LocalServer, kubeconfig: str) -> None:
    """Neither for others' flows nor for one's own: agents answer API servers."""
    server.system.post("/api/v1/nodes", {"metadata": {"name": "somewhere"}})
    asked = {
        "flows": flows_path("home", "watched"),
        "follow": f"{flows_path('home', 'watcher')}?follow=true",
        "trace": pod_path("home", "watched", "default", "target", "1", "trace"),
        "lookup": f"{pod_path('home', 'watched', 'default', 'target', '1', 'lookup')}?name=db",
        "capture": pod_path("home", "watched", "default", "target", "1", "capture"),
        "metrics": "/metrics",
    }[verb]
    watcher = server.as_tenant("watcher")
    # A tenant's own API does not have nodes' proxies at all.
    for prefix, status in (
        ("/api/v1", 404),
        ("/api/v1/tenants/system", 403),
        ("/tenants/system/api/v1", 403),
    ):
        real, missing = (
            watcher.get(f"{prefix}/nodes/{node}/proxy{asked}") for node in ("somewhere", "nowhere")
        )
        assert real.status == missing.status == status, (prefix, real.status, real.body)
        assert real.body.replace(b"somewhere", b"X") == missing.body.replace(b"nowhere", b"X")
