"""A whole control plane: an API server and the controllers, each a process of its own."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.controlplane import LocalControllers
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import Caller, LocalServer, wait_until

_NUMBERS = count()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("control-plane")
    with LocalServer(directory / "server") as server, LocalControllers(server, directory):
        yield server


@pytest.fixture(scope="session")
def hollow_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A control plane with a scheduler and a hollow node, on which every pod runs at once."""
    directory: Path = tmp_path_factory.mktemp("hollow-cluster")
    with (
        LocalServer(directory / "server") as server,
        LocalControllers(server, directory),
        LocalScheduler(server.admin_kubeconfig, directory),
        LocalAgent(node_kubeconfig(server, "n1"), directory / "n1", "n1", "--hollow"),
    ):
        yield server


@pytest.fixture
def tenant_admins(control_plane: LocalServer) -> Iterator[Callable[[], Caller]]:
    """Makes tenants, as many as a test wants; each call returns the administrator of a new one."""
    names: list[str] = []

    def make() -> Caller:
        name = f"some-{next(_NUMBERS)}"
        assert control_plane.system.post("/api/v1/tenants", {"metadata": {"name": name}}).status == 201
        names.append(name)
        wait_until(lambda: _is_usable(control_plane, name))
        return control_plane.as_tenant(name)

    yield make
    for name in names:
        control_plane.system.delete(f"/api/v1/tenants/{name}")


def _is_usable(server: LocalServer, name: str) -> bool:
    """Its administrator may work in it, and pods can be made."""
    account = f"/api/v1/tenants/{name}/namespaces/default/serviceaccounts/default"
    role = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}/clusterrolebindings/admin-role-binding"
    return server.system.get(account).status == 200 and server.system.get(role).status == 200


@pytest.fixture
def tenant_admin(tenant_admins: Callable[[], Caller]) -> Caller:
    return tenant_admins()
