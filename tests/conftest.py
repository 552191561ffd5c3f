"""A running API server, one per worker, for every test that needs one."""

import gc
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from alcove.testing import forkserver
from alcove.testing.server import Caller, LocalServer

# How long an example takes depends on what else the machine does: --timeout bounds a test as a whole.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run, so that a run fails for what was changed; `make test-slow` tries new ones, and
# three times as many. Tests that need more than usual say how many times.
settings.register_profile("same", settings.get_profile("random"), derandomize=True, max_examples=34)
settings.load_profile("same")

_NUMBERS = count(1)

forkserver.enable()

# The tests themselves are over a million objects that stay to the end: no collection has to look at them.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


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
