"""Kept connections: used again while they are good, never when they may not be."""

import asyncio
import gc
import weakref

import pytest
import uvloop

from alcove.client import kubeconfig, pool
from alcove.client.errors import Unreachable
from alcove.client.pool import HttpPool
from alcove.client.transport import Response
from alcove.testing.server import LocalServer

HEADERS = {"Accept": "application/json"}


@pytest.fixture
def small(server: LocalServer) -> HttpPool:
    return HttpPool(kubeconfig.load(server.admin_kubeconfig), connections_max=2)


async def test_requests_one_after_another_share_a_connection(small: HttpPool) -> None:
    for _ in range(5):
        assert (await small.request("GET", "/version", HEADERS)).status == 200
    assert len(small._idle) == 1
    await small.close()


async def test_there_are_never_more_than_allowed(small: HttpPool) -> None:
    answers = await asyncio.gather(*(small.request("GET", "/version", HEADERS) for _ in range(20)))
    assert {answer.status for answer in answers} == {200} and len(small._idle) <= 2
    await small.close()


async def test_old_and_closed_connections_are_not_used_again(
    small: HttpPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await small.request("GET", "/version", HEADERS)
    first = small._idle[0][0]
    monkeypatch.setattr(pool, "IDLE_SECONDS_MAX", 0.0)
    await small.request("GET", "/version", HEADERS)
    assert small._idle[0][0] is not first and not first.is_usable
    monkeypatch.undo()
    second = small._idle[0][0]
    second.close()
    await asyncio.sleep(0)
    assert (await small.request("GET", "/version", HEADERS)).status == 200
    await small.close()


async def test_what_only_a_burst_needed_is_closed_soon(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SPARE_SECONDS_MAX", 0.2)
    wide = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    await asyncio.gather(*(wide.request("GET", "/version", HEADERS) for _ in range(40)))
    burst = [connection for connection, _ in wide._idle]
    assert len(burst) > pool.KEPT
    async with asyncio.timeout(10):
        while len(wide._idle) > pool.KEPT:  # noqa: ASYNC110 - nobody tells of what is closed
            await asyncio.sleep(0.05)
    assert sum(connection.is_usable for connection in burst) == pool.KEPT
    assert (await wide.request("GET", "/version", HEADERS)).status == 200
    await wide.close()


async def test_streams_do_not_use_up_the_connections(small: HttpPool) -> None:
    path = "/api/v1/tenants/all/pods?watch=1"
    async with small.stream(path, HEADERS), small.stream(path, HEADERS), small.stream(path, HEADERS):
        assert (await small.request("GET", "/version", HEADERS)).status == 200
    assert not small._streams
    await small.close()


async def test_an_answer_that_does_not_come_is_given_up(
    small: HttpPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ANSWER_SECONDS_MAX", 0.1)
    with pytest.raises(Unreachable, match="no answer") as given_up:
        await small.request("GET", "/api/v1/tenants/all/pods?watch=1", HEADERS)
    assert given_up.value.sent and not small._idle
    await small.close()


def test_connections_that_ended_leave_no_circles(server: LocalServer) -> None:
    async def scenario() -> None:
        wide = HttpPool(kubeconfig.load(server.admin_kubeconfig))
        await wide.request("GET", "/version", HEADERS)
        async with wide.stream("/api/v1/tenants/all/pods?watch=1", HEADERS) as stream:
            ended = [weakref.ref(wide._idle[0][0]), weakref.ref(stream)]
        del stream
        await wide.close()
        async with asyncio.timeout(5):
            while any(each() is not None for each in ended):  # noqa: ASYNC110 - nobody tells of what is gone
                await asyncio.sleep(0.01)

    gc.collect()
    gc.disable()
    try:
        uvloop.run(scenario())
    finally:
        gc.enable()


class _Endless:
    """A connection whose answers never come for one tenant."""

    is_usable = True

    async def send(self, data: bytes) -> Response:
        if b"/tenants/slow/" in data:
            await asyncio.Event().wait()
        return Response(200, {}, b"")

    def close(self) -> None:
        pass


async def test_a_tenant_whose_webhook_sleeps_leaves_connections_to_the_others(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(_pool: HttpPool) -> _Endless:
        return _Endless()

    monkeypatch.setattr(HttpPool, "_connect", connect)
    shared = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    slow = [asyncio.create_task(shared.request("GET", "/api/v1/tenants/slow/pods", {})) for _ in range(100)]
    await asyncio.sleep(0)
    for path in ("/api/v1/tenants/quick/pods", "/api/v1/tenants/system/nodes"):
        async with asyncio.timeout(1):
            assert (await shared.request("GET", path, {})).status == 200
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    await shared.close()
