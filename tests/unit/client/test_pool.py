"""Pooled connections are reused while they are valid, and only then."""

import asyncio
import gc
import weakref

import pytest
import uvloop
from msgspec import structs

from alcove.client import kubeconfig, pool
from alcove.client.errors import Unreachable
from alcove.client.pool import HttpPool, RequestLimits
from alcove.http.client import HttpClientConnection, ReceivedResponse
from alcove.testing.server import LocalServer

HEADERS = {"Accept": "application/json"}


@pytest.fixture
def small(server: LocalServer) -> HttpPool:
    return HttpPool(kubeconfig.load(server.admin_kubeconfig), RequestLimits(connections_max=2))


def idle(of: HttpPool) -> list[HttpClientConnection]:
    return [each.connection for each in of._idle._idle.get(None, ())]


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
    [first] = idle(small)
    monkeypatch.setattr(small._idle, "_limits", structs.replace(pool.IDLE, idle_seconds_max=0.0))
    await small.request("GET", "/version", HEADERS)
    [second] = idle(small)
    assert second is not first and not first.is_reusable
    monkeypatch.undo()
    second.abort()
    await asyncio.sleep(0)
    assert (await small.request("GET", "/version", HEADERS)).status == 200
    await small.close()


async def test_connections_of_a_burst_are_closed_soon(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE", structs.replace(pool.IDLE, spare_seconds_max=0.2))
    wide = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    burst: list[HttpClientConnection] = []
    async with asyncio.timeout(60):
        # Some may be closed before the last has its response.
        while len(burst) <= pool.IDLE.kept:
            await asyncio.gather(*(wide.request("GET", "/version", HEADERS) for _ in range(40)))
            burst = idle(wide)
    async with asyncio.timeout(60):
        while len(wide._idle) > pool.IDLE.kept:  # noqa: ASYNC110 - closing sends no notification
            await asyncio.sleep(0.05)
    assert sum(connection.is_reusable for connection in burst) == pool.IDLE.kept
    assert (await wide.request("GET", "/version", HEADERS)).status == 200
    await wide.close()


async def test_streams_do_not_use_up_the_connections(small: HttpPool) -> None:
    path = "/api/v1/tenants/all/pods?watch=1"
    async with small.stream(path, HEADERS), small.stream(path, HEADERS), small.stream(path, HEADERS):
        assert (await small.request("GET", "/version", HEADERS)).status == 200
    assert not small._streams
    await small.close()


async def test_a_missing_response_times_out(server: LocalServer) -> None:
    hasty = HttpPool(kubeconfig.load(server.admin_kubeconfig), RequestLimits(response_seconds_max=0.1))
    with pytest.raises(Unreachable, match="no response") as given_up:
        await hasty.request("GET", "/api/v1/tenants/all/pods?watch=1", HEADERS)
    assert given_up.value.sent and not len(hasty._idle)
    await hasty.close()


def test_closed_connections_leave_no_reference_cycles(server: LocalServer) -> None:
    async def scenario() -> None:
        wide = HttpPool(kubeconfig.load(server.admin_kubeconfig))
        await wide.request("GET", "/version", HEADERS)
        async with wide.stream("/api/v1/tenants/all/pods?watch=1", HEADERS) as stream:
            ended = [weakref.ref(each) for each in (*idle(wide), stream._connection)]
        del stream
        await wide.close()
        async with asyncio.timeout(60):
            while any(each() is not None for each in ended):  # noqa: ASYNC110 - nothing signals the end
                await asyncio.sleep(0.01)

    gc.collect()
    gc.disable()
    try:
        uvloop.run(scenario())
    finally:
        gc.enable()


class _Endless:
    """A connection on which one tenant's responses never arrive."""

    is_reusable = True

    async def exchange(self, _method: str, target: str, *_: object, bytes_max: int) -> ReceivedResponse:
        if "/tenants/slow/" in target:
            await asyncio.Event().wait()
        return ReceivedResponse(200, {}, b"")

    def abort(self) -> None:
        pass


async def test_a_tenant_whose_webhook_sleeps_leaves_connections_to_the_others(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(_pool: HttpPool) -> _Endless:
        return _Endless()

    monkeypatch.setattr(HttpPool, "_connect_alone", connect)
    shared = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    slow = [asyncio.create_task(shared.request("GET", "/api/v1/tenants/slow/pods", {})) for _ in range(100)]
    await asyncio.sleep(0)
    for path in ("/api/v1/tenants/quick/pods", "/api/v1/tenants/system/nodes"):
        async with asyncio.timeout(60):
            assert (await shared.request("GET", path, {})).status == 200
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    await shared.close()
