"""A whole control plane: an API server and the controllers, each a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("control-plane")
    with LocalServer(directory / "server") as server, LocalControllers(server, directory):
        yield server
