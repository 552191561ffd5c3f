"""While an API server reads its store, its clients are told that it lives and when to come again."""

import asyncio
import socket
import ssl
from pathlib import Path

import orjson
import pytest

from alcove.http.messages import HttpResponse
from alcove.http.server import HttpServer
from alcove.processes.starting import StartingServer
from alcove.testing.certificates import self_signed

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    directory: Path = tmp_path_factory.mktemp("tls")
    certificate, key = self_signed(HOST)
    (directory / "tls.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.pem")
    return context


async def fetch(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the response, after which the server has to close the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
        writer.write(request)
        answer = await reader.read()
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.lower(), body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


async def test_a_request_is_told_to_come_again(tls: ssl.SSLContext) -> None:
    async with StartingServer([HOST], 0, tls) as starting:
        head, body = await fetch(starting.port, get("/api/v1/namespaces"))
        assert head.startswith(b"http/1.1 503 ") and b"\r\nretry-after: 1" in head
        assert b"\r\nconnection: close" in head
        status = orjson.loads(body)
        assert status["kind"] == "Status" and status["reason"] == "ServiceUnavailable"
        assert status["details"]["retryAfterSeconds"] == 1
        write = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
        head, _ = await fetch(starting.port, write)
        assert head.startswith(b"http/1.1 503 ")


async def test_it_is_alive_and_not_ready(tls: ssl.SSLContext) -> None:
    async with StartingServer([HOST], 0, tls) as starting:
        for path in ("/livez", "/healthz"):
            assert (await fetch(starting.port, get(path)))[0].startswith(b"http/1.1 200 ")
        head, body = await fetch(starting.port, get("/readyz"))
        assert head.startswith(b"http/1.1 500 ") and b"reads its store" in body


async def test_who_has_connected_when_it_hands_over_is_served_by_its_successor(tls: ssl.SSLContext) -> None:
    async with StartingServer([HOST], 0, tls) as starting:
        port = starting.port
        listeners = await starting.hand_over()
        # Between the two nobody accepts, and nobody is turned away.
        waiting = asyncio.create_task(fetch(port, get("/").replace(b"Host", b"Connection: close\r\nHost")))
        await asyncio.sleep(0)
        successor = HttpServer(lambda _request: HttpResponse(200, b"ok"), HOST, 0, tls, listeners=listeners)
        async with successor:
            assert successor.port == port
            head, body = await waiting
            assert head.startswith(b"http/1.1 200 ") and body == b"ok"
    with pytest.raises(OSError):
        socket.create_connection((HOST, port), timeout=60)


async def test_a_start_that_fails_leaves_no_open_port(tls: ssl.SSLContext) -> None:
    with pytest.raises(ValueError):
        async with StartingServer([HOST], 0, tls) as starting:
            port = starting.port
            raise ValueError
    with pytest.raises(OSError):
        socket.create_connection((HOST, port), timeout=60)


async def test_a_port_that_another_server_has_is_refused(tls: ssl.SSLContext) -> None:
    with socket.create_server((HOST, 0)) as other, pytest.raises(OSError):
        async with StartingServer([HOST], other.getsockname()[1], tls):
            pass
