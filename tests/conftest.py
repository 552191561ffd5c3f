"""A running API server, one per worker, for every test that needs one."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from alcove.testing.server import Caller, LocalServer

pytest_plugins = ["alcove.testing.collection"]
_NUMBERS = count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("apiserver")
    with LocalServer(directory) as running:
        running.make_namespace("system", "default")
        yield running


@pytest.fixture
def tenant(server: LocalServer) -> Caller:
    """The administrator of a tenant that is this test's own."""
    return server.make_tenant(f"t{next(_NUMBERS)}")
