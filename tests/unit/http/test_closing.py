"""A peer that does not read is disconnected all the same."""

import asyncio
import socket

import pytest

from alcove.http import closing
from alcove.http.client import HttpClientConnection


async def connected() -> tuple[HttpClientConnection, socket.socket]:
    """A client's connection and the server's socket, from which nothing is read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        loop = asyncio.get_running_loop()
        _, request = await loop.create_connection(HttpClientConnection, *listener.getsockname())
        other, _ = listener.accept()
    return request, other


async def test_buffered_data_is_sent_before_closing() -> None:
    request, other = await connected()
    with other:
        request.transport.write(b"last words")
        request.close()
        request.close()
        other.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            assert await loop.sock_recv(other, 100) == b"last words"


async def test_a_client_that_does_not_read_is_disconnected_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closing, "FLUSH_SECONDS_MAX", 0.1)
    request, other = await connected()
    with other:
        request.transport.write(bytes(64 << 20))
        request.close()
        other.setblocking(False)
        await asyncio.sleep(0.3)
        received = 0
        with pytest.raises(ConnectionResetError):
            while data := other.recv(1 << 20):
                received += len(data)
        assert received < 64 << 20
