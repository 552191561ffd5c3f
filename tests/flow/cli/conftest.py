"""A server with its controllers, and verbs as a person types them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from alcove.processes.main import app
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer

Alcove = Callable[..., Result]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with LocalServer(directory) as server, LocalControllers(server, directory):
        yield server


@pytest.fixture
def alcove(cluster: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Alcove:
    """`alcove("tenant", "list")` as ring0's administrator."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.admin_kubeconfig))
    return lambda *words: CliRunner().invoke(app, list(words))
