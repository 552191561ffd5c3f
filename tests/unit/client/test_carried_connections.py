"""All connections of a pool to a dedicated plane are streams of one, if its server agrees."""

import asyncio
import signal
from pathlib import Path

import pytest
from msgspec import structs

from alcove.client import carried_connections, kubeconfig
from alcove.client.carried_connections import CarriedConnections
from alcove.client.errors import Unreachable
from alcove.client.pool import DEDICATED, STOCK, HttpPool
from alcove.http.carrier import CarriedStream
from alcove.http.client import HttpClientConnection
from alcove.testing.server import LocalServer

HEADERS = {"Accept": "application/json"}
WATCH = "/api/v1/tenants/all/pods?watch=1"


def connections(of: HttpPool) -> list[HttpClientConnection]:
    return [*of._streams, *(each.connection for each in of._idle._idle.get(None, ()))]


async def test_requests_and_watches_share_one_connection(server: LocalServer) -> None:
    pool = HttpPool(kubeconfig.load(server.admin_kubeconfig), DEDICATED)
    async with pool.stream(WATCH, HEADERS) as first, pool.stream(WATCH, HEADERS) as second:
        answers = await asyncio.gather(*(pool.request("GET", "/version", HEADERS) for _ in range(20)))
        assert {each.status for each in answers} == {200} and first.status == second.status == 200
        found = connections(pool)
        assert len(found) > 2 and all(isinstance(each.transport, CarriedStream) for each in found)
        assert len({each.transport.get_extra_info("ssl_object") for each in found}) == 1
    body = (await pool.request("GET", "/openapi/v2", HEADERS)).body
    assert len(body) > 1 << 20, "many windows"
    await pool.close()
    await asyncio.sleep(0)
    assert not any(each.is_open for each in found)


async def test_others_than_ring0_and_stock_servers_get_a_connection_each(server: LocalServer) -> None:
    server.make_tenant("acme")
    server.as_tenant("acme")
    for path, limits in (
        (server.directory / "acme-admin.kubeconfig", DEDICATED),
        (server.admin_kubeconfig, STOCK),
    ):
        pool = HttpPool(kubeconfig.load(path), limits)
        assert (await pool.request("GET", "/version", HEADERS)).status == 200
        [connection] = connections(pool)
        assert not isinstance(connection.transport, CarriedStream)
        await pool.close()


async def test_a_server_that_is_back_is_connected_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it was restarted at once; if it said nothing for long, as one that is cut off, after a request has timed out."""
    monkeypatch.setattr(carried_connections, "SILENT_SECONDS_MAX", 0.0)
    with LocalServer(tmp_path) as server:
        limits = structs.replace(DEDICATED, response_seconds_max=1.0)
        pool = HttpPool(kubeconfig.load(server.admin_kubeconfig), limits)
        assert (await pool.request("GET", "/version", HEADERS)).status == 200
        [before] = connections(pool)
        server.send(signal.SIGSTOP)
        with pytest.raises(Unreachable):
            await pool.request("GET", "/version", HEADERS)
        assert not before.is_reusable
        server.send(signal.SIGCONT)
        await until_answered(pool)
        server.stop(signal.SIGKILL)
        server.start()
        await until_answered(pool)
        await pool.close()


async def test_a_pool_that_is_closed_while_it_connects_cancels_nobody() -> None:
    """Its users would take it for their own cancellation, and end."""
    connecting = asyncio.Event()

    async def connect() -> HttpClientConnection:
        connecting.set()
        await asyncio.Event().wait()
        raise AssertionError

    carried = CarriedConnections(connect, {}, 10.0)
    waiting = [asyncio.create_task(carried.open("test")) for _ in range(3)]
    await connecting.wait()
    waiting[0].cancel()
    await asyncio.sleep(0)
    assert waiting[0].cancelled() and not waiting[1].done()
    carried.close()
    for each in waiting[1:]:
        with pytest.raises(ConnectionResetError):
            await each
    with pytest.raises(ConnectionResetError):
        await carried.open("test")


async def until_answered(pool: HttpPool) -> None:
    async with asyncio.timeout(60):
        while not await answers(pool):  # noqa: ASYNC110 - nothing tells when the server is there
            await asyncio.sleep(0.05)


async def answers(pool: HttpPool) -> bool:
    try:
        return (await pool.request("GET", "/version", HEADERS)).status == 200
    except Unreachable:
        return False
