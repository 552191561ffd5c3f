"""The way from a network to its API server, over real sockets."""

import asyncio
import socket
from collections.abc import Iterator

import pytest
import uvloop

from alcove.agent.network import apiserver_proxy
from alcove.agent.network.apiserver_proxy import ApiServerProxy

CLIENTS = 12


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers until the client is done, then closes, as a server does."""
    while data := await reader.read(64):
        writer.write(data[::-1])
    writer.close()


async def ask(address: tuple[str, int], word: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    if word:
        writer.write(word)
        await reader.readexactly(len(word))
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def clients_come_and_go(bound: socket.socket, word: bytes) -> None:
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    proxy = ApiServerProxy((bound,), lambda: server.sockets[0].getsockname())
    proxy.start()
    try:
        for _ in range(CLIENTS):
            async with asyncio.timeout(30):
                assert await ask(bound.getsockname(), word) == b""
    finally:
        proxy.close()
        server.close()


@pytest.mark.parametrize("word", [b"", b"hello"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_clients_that_are_done_do_not_keep_others_out(
    bound: socket.socket, monkeypatch: pytest.MonkeyPatch, loop: object, word: bytes
) -> None:
    """A connection that both sides had ended was counted for good: after 256, a network had no API server."""
    monkeypatch.setattr(apiserver_proxy, "CONNECTIONS_MAX", 3)
    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]
        runner.run(clients_come_and_go(bound, word))
