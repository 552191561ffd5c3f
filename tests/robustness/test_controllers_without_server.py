"""The API server stops and starts again: the controllers wait for it and continue."""

from pathlib import Path

from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer, wait_until

LEASE = ("--lease-seconds", "2")


def is_ready(server: LocalServer, name: str) -> bool:
    path = f"/api/v1/tenants/{name}/namespaces/kube-public/serviceaccounts/default"
    return server.system.get(path).status == 200


def make(server: LocalServer, name: str) -> None:
    assert server.system.post("/api/v1/tenants", {"metadata": {"name": name}}).status == 201


def test_they_outlive_the_server(tmp_path: Path) -> None:
    server = LocalServer(tmp_path / "server")
    with server, LocalControllers(server, tmp_path, *LEASE) as controllers:
        pid = controllers.pid
        for number in range(2):
            make(server, f"t{number}")
            wait_until(lambda: is_ready(server, f"t{number}"))  # noqa: B023 - called at once
            make(server, f"late{number}")
            server.kill()
            server.start()
        for number in range(2):
            wait_until(lambda: is_ready(server, f"late{number}"))  # noqa: B023 - called at once
        assert controllers.pid == pid


def test_they_may_start_before_the_server(tmp_path: Path) -> None:
    server = LocalServer(tmp_path / "server")
    server.start()
    kept = server.admin_kubeconfig.read_text()
    server.stop()
    through = tmp_path / "kept.kubeconfig"
    through.write_text(kept)
    controllers = LocalControllers(server, tmp_path, *LEASE, kubeconfig=through)
    controllers.start()
    try:
        wait_until(lambda: "failed to reach lease" in controllers.log)
        server.start()
        controllers.wait()
        make(server, "t")
        wait_until(lambda: is_ready(server, "t"))
    finally:
        controllers.stop()
        server.stop()
