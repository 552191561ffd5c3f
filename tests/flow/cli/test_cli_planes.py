"""`alcove plane …`: what is refused before anything is written. Joining itself is tried in `tests/e2e/test_foreign_planes.py`."""

import socket
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from typer.testing import Result

from alcove.testing.server import LocalServer

Alcove = Callable[..., Result]
SECRETS = "/api/v1/namespaces/alcove-planes/secrets"


@pytest.fixture(scope="module")
def unreachable(tmp_path_factory: pytest.TempPathFactory, cluster: LocalServer) -> Path:
    """A kubeconfig of a server that does not listen."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    host, own_port = cluster.address
    path = tmp_path_factory.mktemp("plane") / "unreachable.kubeconfig"
    path.write_text(cluster.admin_kubeconfig.read_text().replace(f"{host}:{own_port}", f"{host}:{port}"))
    return path


@pytest.fixture(scope="module", autouse=True)
def tenants(cluster: LocalServer) -> None:
    for name, mode in (("elsewhere", "Foreign"), ("athome", "Shared")):
        body = {"metadata": {"name": name}, "spec": {"controlPlane": {"mode": mode}}}
        assert cluster.system.post("/api/v1/tenants", body).status == 201


@pytest.mark.parametrize(
    ("name", "tenant", "code", "expected"),
    [
        ("office", "nobody", 5, 'tenants "nobody" not found'),
        ("office", "athome", 1, "tenant athome has the mode Shared"),
        ("office", "system", 1, "tenant system has the mode Shared"),
        ("Bad_Name", "elsewhere", 2, 'invalid name "Bad_Name"'),
        ("office", "elsewhere", 3, "cannot"),
    ],
)
def test_planes_that_cannot_be_joined(
    alcove: Alcove, cluster: LocalServer, unreachable: Path, name: str, tenant: str, code: int, expected: str
) -> None:
    result = alcove("plane", "join", name, "--tenant", tenant, "--kubeconfig", str(unreachable))
    assert result.exit_code == code, result.output
    assert expected in result.stderr
    assert cluster.system.get(SECRETS).json["items"] == []


@pytest.mark.parametrize(
    ("content", "code", "expected"),
    [
        ("not a kubeconfig", 3, "is not a kubeconfig"),
        (
            "users: [{name: it, user: {exec: {command: login}}}]",
            1,
            "neither a client certificate nor a token",
        ),
        ("users: [{name: it, user: {token: x}}]", 1, "no certificate-authority"),
    ],
)
def test_kubeconfigs_that_cannot_be_used(
    alcove: Alcove, cluster: LocalServer, tmp_path: Path, content: str, code: int, expected: str
) -> None:
    path, authority = tmp_path / "kubeconfig", tmp_path / "ca.crt"
    authority.write_bytes((cluster.directory / "pki" / "ca.crt").read_bytes())
    trusted = "" if "token" in content else ", certificate-authority: ca.crt"
    head = (
        "current-context: it\ncontexts: [{name: it, context: {cluster: it, user: it}}]\n"
        f'clusters: [{{name: it, cluster: {{server: "https://127.0.0.1:1"{trusted}}}}}]\n'
    )
    path.write_text(content if content.startswith("not") else head + content)
    result = alcove("plane", "join", "office", "--tenant", "elsewhere", "--kubeconfig", str(path))
    assert result.exit_code == code, result.output
    assert expected in result.stderr


def test_planes_that_are_not_there(alcove: Alcove) -> None:
    result = alcove("plane", "leave", "office")
    assert result.exit_code == 5 and "plane office not found" in result.stderr
    assert orjson.loads(alcove("plane", "list", "-o", "json").stdout) == []


def test_foreign_tenants_have_nothing_at_home(alcove: Alcove, cluster: LocalServer) -> None:
    made = alcove("tenant", "create", "abroad", "--foreign")
    assert made.exit_code == 0, made.output
    for path in ("namespaces", "networks"):
        answer = cluster.system.get(f"/api/v1/tenants/abroad/{path}")
        assert answer.status == 403 and "on a foreign plane" in answer.json["message"]
    # Nobody can act for it there, so that nothing is made that its plane would have, too.
    network = {"metadata": {"name": "default"}, "spec": {"type": "vpc", "ip": "10.0.0.0", "prefix": 16}}
    assert cluster.system.post("/api/v1/tenants/abroad/networks", network).status == 403
    assert alcove("tenant", "kubeconfig", "abroad").exit_code == 1
    assert alcove("tenant", "create", "both", "--foreign", "--dedicated").exit_code == 2
    assert alcove("tenant", "delete", "abroad").stdout == "tenant/abroad deleted\n"
