"""`alcove tenant …` and `alcove network …` against a real server with its controllers."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import yaml
from typer.testing import Result

from alcove.testing.server import Caller, LocalServer

Alcove = Callable[..., Result]


def test_a_tenant_is_made_shown_and_deleted(alcove: Alcove) -> None:
    made = alcove(
        "tenant", "create", "acme", "--weight", "3", "--quota", "pods=7", "--domain", "*.acme.example"
    )
    assert made.exit_code == 0, made.output
    assert made.stdout == "tenant/acme\n"
    lines = alcove("tenant", "list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "PHASE", "MODE", "WEIGHT", "AGE"]
    assert any(line.split()[:4] == ["acme", "Active", "Shared", "3"] for line in lines)
    shown = orjson.loads(alcove("tenant", "show", "acme", "-o", "json").stdout)
    assert shown["spec"]["quota"] == {"hard": {"pods": "7"}}
    assert shown["spec"]["domains"] == ["*.acme.example"]
    assert "Networks:" in alcove("tenant", "show", "acme").stdout
    assert alcove("tenant", "delete", "acme").stdout == "tenant/acme deleted\n"
    assert "tenant/acme" not in alcove("tenant", "list", "-o", "name").stdout


def test_waiting_for_a_tenant_means_that_its_network_is_ready(alcove: Alcove) -> None:
    assert alcove("tenant", "create", "connected").exit_code == 0
    result = alcove("network", "list", "--tenant", "connected", "-o", "json")
    assert [item["status"]["phase"] for item in orjson.loads(result.stdout)["items"]] == ["Ready"]
    rows = [line.split() for line in alcove("network", "list").stdout.splitlines()]
    assert rows[0][:2] == ["TENANT", "NAME"] and ["connected", "default"] in [row[:2] for row in rows]
    shown = alcove("network", "show", "connected").stdout
    assert "Services:" in shown and "kube-dns-default" in shown
    assert "Connections: 0" in shown and "BACKENDS" in shown


def test_the_kubeconfig_of_a_tenant_is_its_administrators(alcove: Alcove, tmp_path: Path) -> None:
    alcove("tenant", "create", "globex")
    path = tmp_path / "globex.kubeconfig"
    assert alcove("tenant", "kubeconfig", "globex", "-o", str(path)).exit_code == 0
    assert path.stat().st_mode & 0o077 == 0
    assert "default" in Caller(path).kubectl("get", "namespaces")
    own = alcove("network", "show", "globex", "--interval", "0.1", "--kubeconfig", str(path))
    assert own.exit_code == 0 and "Connections: 0" in own.stdout, own.output
    result = yaml.safe_load(alcove("tenant", "kubeconfig", "globex").stdout)
    assert result["current-context"] == "admin@globex"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("tenant", "show", "nobody"), 5, 'tenants "nobody" not found'),
        (("tenant", "create", "system"), 1, "already exists"),
        (("tenant", "delete", "system"), 6, "may not be deleted"),
        (("tenant", "create", "Bad_Name"), 1, "Invalid value"),
        (("tenant", "create", "x", "--quota", "cpu"), 2, "RESOURCE=AMOUNT"),
        (("tenant", "create"), 2, "Missing argument"),
        (("network", "show", "connected", "absent"), 5, "not found"),
        (("tenant", "list", "--kubeconfig", "/nonexistent"), 3, "--kubeconfig"),
    ],
)
def test_what_goes_wrong_is_said_with_a_code(
    alcove: Alcove, words: tuple[str, ...], code: int, expected: str
) -> None:
    done = alcove(*words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert expected in done.stderr


def test_a_tenants_user_sees_what_is_forbidden(
    alcove: Alcove, cluster: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    alcove("tenant", "create", "initech")
    monkeypatch.setenv("KUBECONFIG", str(cluster.as_tenant("initech").kubeconfig))
    done = alcove("tenant", "list")
    assert done.exit_code == 6 and "forbidden" in done.stderr


def test_a_wait_that_is_over_exits_with_4(alcove: Alcove, cluster: LocalServer) -> None:
    cluster.system.post(
        "/api/v1/tenants", {"metadata": {"name": "stuck", "finalizers": ["example.com/held"]}, "spec": {}}
    )
    done = alcove("tenant", "delete", "stuck", "--timeout", "0.5")
    assert done.exit_code == 4 and "--timeout" in done.stderr
    cluster.system.patch("/api/v1/tenants/stuck", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("form", ["json", "yaml", "name", "wide"])
def test_every_form_of_output(alcove: Alcove, form: str) -> None:
    result = alcove("tenant", "list", "-o", form)
    assert result.exit_code == 0 and "system" in result.stdout
    match form:
        case "json":
            assert orjson.loads(result.stdout)["kind"] == "List"
        case "yaml":
            assert yaml.safe_load(result.stdout)["kind"] == "List"
        case "name":
            assert "tenant/system" in result.stdout.splitlines()
        case "wide":
            assert "ENDPOINT" in result.stdout
