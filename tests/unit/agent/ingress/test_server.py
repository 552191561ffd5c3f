"""What the proxy refuses, and its limits; on real sockets."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from alcove.agent.ingress.limits import IngressLimits
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, TenantKey
from alcove.testing.ingress import HOST, OK, TENANT, ProxyLab, answering, get, read_head

SMALL = IngressLimits(
    idle_seconds_max=20, head_seconds_max=20, stall_seconds_max=20, response_seconds_max=20, connect_seconds_max=20,
    headers_max=20, head_bytes_max=4096, body_bytes_max=1 << 20, requests_per_tenant_max=4,
)  # fmt: skip


@pytest.fixture
async def lab() -> AsyncIterator[ProxyLab]:
    made = ProxyLab()
    await made.start(SMALL)
    yield made
    await made.close()


BAD = {
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "unknown host": (get(host="other.example"), 404),
    "not HTTP": (b"\x16\x03\x01\x00\x00hello\r\n\r\n", 400),
    "two lengths": (
        b"POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        400,
    ),
    "length and chunks": (
        b"POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "space before colon": (b"GET / HTTP/1.1\r\nHost : shop.example\r\n\r\n", 400),
    "too many headers": (get("/", *(f"X-{n}: y" for n in range(30))), 431),
    "head too large": (get("/", "X-Big: " + "x" * 5000), 431),
    "body too large": (b"POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 2000000\r\n\r\n", 413),
    "websocket with a body": (
        get("/", "Upgrade: websocket", "Connection: Upgrade", "Content-Length: 2", close=False) + b"hi",
        400,
    ),
    "connect": (b"CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example\r\n\r\n", 501),
    "odd target": (b"GET ftp://shop.example/ HTTP/1.1\r\nHost: shop.example\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_cannot_be_served_is_refused(lab: ProxyLab, name: str) -> None:
    seen: list[bytes] = []
    await lab.backend(answering(OK, seen=seen))
    raw, status = BAD[name]
    answer = await lab.ask(raw)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert answer.count(b"HTTP/1.1") == 1
    assert not seen


async def test_the_whole_address_may_be_asked_for(lab: ProxyLab) -> None:
    seen: list[bytes] = []
    await lab.backend(answering(OK, seen=seen))
    assert b"hello" in await lab.ask(
        f"GET http://{HOST}/x?y HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n".encode()
    )
    assert seen[0].startswith(b"GET /x?y HTTP/1.1\r\nHost: shop.example\r\n")


async def test_a_slow_head_is_not_waited_for(lab: ProxyLab) -> None:
    lab.server.limits = replace(SMALL, head_seconds_max=0.2)
    reader, writer = await lab.connect()
    writer.write(b"GET / HTTP/1.1\r\nHo")
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()


async def test_a_head_that_drips_is_not_waited_for(lab: ProxyLab) -> None:
    lab.server.limits = replace(SMALL, head_seconds_max=0.2)
    reader, writer = await lab.connect()

    async def drip() -> None:
        with contextlib.suppress(ConnectionError):
            for byte in get("/" + "x" * 200):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    dripping.cancel()
    writer.close()


async def test_a_tenants_flood_is_bounded(lab: ProxyLab) -> None:
    go = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        await go.wait()
        writer.write(OK)

    await lab.backend(slow)
    asking = [asyncio.create_task(lab.ask(get())) for _ in range(6)]
    refused = [await done for done in itertools.islice(asyncio.as_completed(asking), 2)]
    assert [answer[:12] for answer in refused] == [b"HTTP/1.1 503"] * 2
    go.set()
    answers = await asyncio.gather(*asking)
    assert sum(answer.endswith(b"hello") for answer in answers) == 4


async def test_many_at_once_each_get_their_own(lab: ProxyLab) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            path = (await read_head(reader)).split(b" ")[1]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(path), path))

    await lab.backend(echo)

    async def one(number: int) -> None:
        reader, writer = await lab.connect()
        for turn in range(20):
            path = f"/{number}/{turn}".encode()
            writer.write(get(path.decode(), close=False))
            await read_head(reader)
            assert await reader.readexactly(len(path)) == path
        writer.close()

    await asyncio.gather(*(one(number) for number in range(4)))


OTHER_HOST, OTHER = "other.example", TenantKey(HOME, TenantId("red"))


async def _keep_alive(lab: ProxyLab, host: str) -> tuple[bytes, asyncio.StreamWriter]:
    """Sends a request; the connection stays open unless the proxy closes it. Returns the first line of the response."""
    reader, writer = await lab.connect()
    writer.write(get(host=host, close=False))
    async with asyncio.timeout(60):
        return (await read_head(reader)).partition(b"\r\n")[0], writer


async def test_open_connections_to_one_tenants_hosts_leave_some_for_anothers() -> None:
    """They took all connections of the node, and no other tenant's host was reached."""
    lab, kept = ProxyLab(), []
    await lab.start(replace(SMALL, connections_max=32, requests_per_tenant_max=100))
    try:
        await lab.backend(answering(*[OK] * 100))
        address = lab.backends[0].sockets[0].getsockname()[:2]
        lab.lead_to(address, hosts={HOST: TENANT, OTHER_HOST: OTHER})
        answers = []
        for _ in range(40):
            first, writer = await _keep_alive(lab, HOST)
            answers.append(first)
            kept.append(writer)
        # An eighth is for connections without a request, and a tenant alone may have half of the others.
        assert answers == [b"HTTP/1.1 200 OK"] * 14 + [b"HTTP/1.1 503 Service Unavailable"] * 26
        first, writer = await _keep_alive(lab, OTHER_HOST)
        kept.append(writer)
        assert first == b"HTTP/1.1 200 OK"
    finally:
        for writer in kept:
            writer.close()
        await lab.close()


async def test_connections_without_a_request_lose_the_oldest_of_their_client() -> None:
    lab = ProxyLab()
    await lab.start(replace(SMALL, connections_max=32))
    silent = []
    try:
        await lab.backend(answering(OK))
        silent = [await lab.connect() for _ in range(40)]
        async with asyncio.timeout(60):
            for reader, _ in silent[:36]:
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
        assert (await lab.ask(get())).endswith(b"hello")
    finally:
        for _, writer in silent:
            writer.close()
        await lab.close()


async def test_nothing_is_kept_of_tenants_that_come_and_go(lab: ProxyLab) -> None:
    """What was counted by tenant grew with every tenant that had ever been served."""
    await lab.backend(answering(*[OK] * 100))
    address = lab.backends[0].sockets[0].getsockname()[:2]
    for number in range(20):
        host = f"h{number}.example"
        lab.lead_to(address, hosts={host: TenantKey(HOME, TenantId(f"t{number}"))})
        assert (await lab.ask(get(host=host))).endswith(b"hello")
    async with asyncio.timeout(60):
        while lab.server._connections.count:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    assert not lab.server._active_requests
    assert not lab.server._clients
    assert not lab.server._connections._groups
