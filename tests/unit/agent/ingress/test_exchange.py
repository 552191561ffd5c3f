"""Requests and responses through the proxy, on real sockets that carry exactly the given bytes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from alcove.agent.ingress.limits import IngressLimits
from alcove.testing.ingress import HOST, OK, ProxyLab, answering, get, read_head

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


async def test_a_request_is_answered_by_the_services_backend(lab: ProxyLab) -> None:
    seen: list[bytes] = []
    await lab.backend(answering(OK, seen=seen))
    answer = await lab.ask(get("/a?b=c", "X-Forwarded-For: 6.6.6.6", "X-Secret: s", "Te: trailers"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nhello")
    assert b"X-Own: yes" in answer
    [head] = seen
    assert head.startswith(b"GET /a?b=c HTTP/1.1\r\nHost: shop.example\r\n")
    for line in (
        b"X-Forwarded-For: 127.0.0.1",
        b"X-Forwarded-Proto: http",
        b"X-Forwarded-Host: shop.example",
        b"X-Secret: s",
    ):
        assert line + b"\r\n" in head
    assert b"6.6.6.6" not in head, "nobody says of himself where he comes from"
    assert b"Connection" not in head
    assert head.count(b"Host: ") == 2, "its own, and the forwarded one"
    assert lab.dialled[0][:2] == ("blue", "default")


async def test_connections_are_kept_on_both_sides(lab: ProxyLab) -> None:
    await lab.backend(answering(OK, OK, OK))
    reader, writer = await lab.connect()
    for _ in range(3):
        writer.write(get(close=False))
        assert (await read_head(reader)).startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(5) == b"hello"
    assert len(lab.dialled) == 1
    writer.close()


async def test_requests_may_be_sent_ahead(lab: ProxyLab) -> None:
    await lab.backend(answering(OK.replace(b"hello", b"first"), OK.replace(b"hello", b"secnd")))
    answer = await lab.ask(get("/1", close=False) + get("/2"))
    assert answer.index(b"first") < answer.index(b"secnd")


async def test_a_kept_connection_that_the_backend_closed_is_no_failure(lab: ProxyLab) -> None:
    await lab.backend(answering(OK))
    for _ in range(3):
        assert b"hello" in await lab.ask(get())
    assert len(lab.dialled) == 3


async def test_a_request_on_a_closing_connection_is_retried(lab: ProxyLab) -> None:
    """The backend closes at the moment in which the next request comes: it was never heard."""
    asked: list[bytes] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(OK)
        asked.append(await read_head(reader))

    await lab.backend(once)
    reader, writer = await lab.connect()
    for _ in range(3):
        writer.write(get(close=False))
        assert (await read_head(reader)).startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(5) == b"hello"
    assert len(asked) == 2
    assert len(lab.dialled) == 3
    writer.write(f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 2\r\n\r\nhi".encode())
    assert (await read_head(reader)).startswith(b"HTTP/1.1 502"), (
        "what may have had an effect is not repeated"
    )
    writer.close()


async def test_an_unrequested_response_is_discarded(lab: ProxyLab) -> None:
    """A backend that says more than it was asked loses the connection: the next client hears another."""
    poison = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
    for more in (poison, poison[:20], poison[:1]):

        async def poisoned(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, more: bytes = more
        ) -> None:
            await read_head(reader)
            writer.write(OK + more)
            await read_head(reader)
            writer.write(poison[len(more) :])

        await lab.backend(poisoned)
        for _ in range(2):
            assert (await lab.ask(get())).endswith(b"hello")
    assert len(lab.dialled) == 6


async def test_bodies_pass_by_length_and_in_chunks(lab: ProxyLab) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_head(reader)
        if b"Transfer-Encoding: chunked" in head:
            body = b""
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            writer.write(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
                % (len(body), body)
            )
        else:
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
            writer.write(await reader.readexactly(length))
        await writer.drain()

    await lab.backend(echo)
    big = bytes(range(256)) * 2000
    post = f"POST / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n".encode()
    answer = await lab.ask(post + b"Content-Length: %d\r\n\r\n" % len(big) + big)
    assert answer.endswith(big)
    chunks = (
        b"".join(b"%x\r\n%s\r\n" % (1000, big[i : i + 1000]) for i in range(0, 512_000, 1000)) + b"0\r\n\r\n"
    )
    answer = await lab.ask(post + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    plain = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        plain, body = plain + body[: int(size, 16)], body[int(size, 16) + 2 :]
    assert plain == big


async def test_an_answer_may_come_before_the_request_has_ended(lab: ProxyLab) -> None:
    refusal = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"

    await lab.backend(answering(refusal))
    reader, writer = await lab.connect()
    writer.write(f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 1000\r\n\r\n".encode() + b"x" * 10)
    async with asyncio.timeout(60):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"Connection: close" in answer
    writer.close()


async def test_go_ahead_is_passed_on(lab: ProxyLab) -> None:
    async def careful(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"Expect: 100-continue" in await read_head(reader)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(4) == b"body"
        writer.write(OK)

    await lab.backend(careful)
    reader, writer = await lab.connect()
    writer.write(
        f"PUT / HTTP/1.1\r\nHost: {HOST}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n".encode()
    )
    assert (await read_head(reader)).startswith(b"HTTP/1.1 100")
    writer.write(b"body")
    assert (await read_head(reader)).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_a_websocket_is_a_tunnel(lab: ProxyLab) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_head(reader)
        assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in head
        assert b"Sec-WebSocket-Key: k" in head
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst"
        )
        while data := await reader.read(100):
            writer.write(data[::-1])

    await lab.backend(echo)
    reader, writer = await lab.connect()
    writer.write(
        get("/", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: k", close=False) + b"early"
    )
    assert (await read_head(reader)).startswith(b"HTTP/1.1 101")
    assert await reader.readexactly(5) == b"first"
    assert await reader.readexactly(5) == b"ylrae"
    writer.write(b"\x00\xff\x01")
    assert await reader.readexactly(3) == b"\x01\xff\x00"
    writer.close()


async def test_a_websocket_may_be_refused(lab: ProxyLab) -> None:
    await lab.backend(answering(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"))
    answer = await lab.ask(get("/", "Upgrade: websocket", "Connection: Upgrade", close=False))
    assert answer.startswith(b"HTTP/1.1 403")


async def test_an_upgrade_to_http2_is_ignored(lab: ProxyLab) -> None:
    lab.server.limits = replace(SMALL, idle_seconds_max=1.0)
    seen: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_head(reader))
        assert await reader.readexactly(4) == b"body"
        writer.write(OK)

    await lab.backend(echo)
    wish = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ"
    answer = await lab.ask(
        f"POST / HTTP/1.1\r\nHost: {HOST}\r\n{wish}\r\nContent-Length: 4\r\n\r\nbody".encode()
    )
    assert answer.endswith(b"hello")
    assert b"h2c" not in seen[0]


async def test_an_answer_without_length_ends_with_its_connection(lab: ProxyLab) -> None:
    await lab.backend(answering(b"HTTP/1.1 200 OK\r\n\r\nuntil the end"))
    answer = await lab.ask(get())
    assert answer.endswith(b"d\r\nuntil the end\r\n0\r\n\r\n")
    old = await lab.ask(f"GET / HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode())
    assert old.endswith(b"\r\n\r\nuntil the end")
    assert b"chunked" not in old


async def test_a_head_alone_has_no_body(lab: ProxyLab) -> None:
    await lab.backend(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", OK))
    reader, writer = await lab.connect()
    writer.write(f"HEAD / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() + get())
    answer = await reader.read()
    assert answer.count(b"Content-Length: 5") == 2
    assert answer.count(b"hello") == 1
    assert len(lab.dialled) == 1, "the backend's connection was good for the next"
    writer.close()


async def test_a_truncated_response_is_not_passed_on_as_complete(lab: ProxyLab) -> None:
    await lab.backend(answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"))
    try:
        answer = await lab.ask(get())
    except ConnectionResetError:
        return
    assert not answer.endswith(b"0\r\n\r\n")


async def test_a_stream_ends_when_its_client_disconnects(lab: ProxyLab) -> None:
    ended = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while not writer.is_closing():
                writer.write(b"data: tick\n\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        finally:
            ended.set()

    await lab.backend(endless)
    reader, writer = await lab.connect()
    writer.write(get(close=False))
    await read_head(reader)
    assert b"tick" in await reader.read(100), "each event is passed on as it comes"
    writer.close()
    async with asyncio.timeout(60):
        await ended.wait()


async def test_an_unreachable_backend_is_an_error_response(lab: ProxyLab) -> None:
    lab.lead_to(("127.0.0.1", 1))
    assert (await lab.ask(get())).startswith(b"HTTP/1.1 502")
    lab.lead_to()
    assert (await lab.ask(get())).startswith(b"HTTP/1.1 503")


async def test_a_silent_backend_is_an_error_response(lab: ProxyLab) -> None:
    lab.server.limits = replace(SMALL, response_seconds_max=0.2)

    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    await lab.backend(silent)
    assert (await lab.ask(get())).startswith(b"HTTP/1.1 504")


async def test_a_backend_that_does_not_speak_http_is_an_error_response(lab: ProxyLab) -> None:
    await lab.backend(answering(b"220 mail.example ESMTP\r\n"))
    assert (await lab.ask(get())).startswith(b"HTTP/1.1 502")
