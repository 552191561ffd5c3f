"""A client of the running API server, as ring0."""

from collections.abc import AsyncIterator

import pytest

from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.pool import HttpPool
from alcove.testing.server import LocalServer


@pytest.fixture
async def pool(server: LocalServer) -> AsyncIterator[HttpPool]:
    pool = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    yield pool
    await pool.close()


@pytest.fixture
def client(pool: HttpPool) -> Client:
    return Client(pool)
