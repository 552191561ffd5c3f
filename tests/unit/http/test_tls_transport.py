"""Connections over TLS: what is not read is not delivered, and a peer that does not read keeps nothing open."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import uvloop

from alcove.http import tls_transport
from alcove.http.tls_transport import TlsSession, TlsTransport
from alcove.testing.certificates import self_signed


class Received(asyncio.Protocol):
    def __init__(self, *, is_pausing: bool = False) -> None:
        self._is_pausing = is_pausing
        self.transport = cast(asyncio.Transport, None)
        self.data: list[bytes] = []
        self.changed = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data.append(data)
        self.changed.set()
        if self._is_pausing:
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


def contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    certificate, key = self_signed("127.0.0.1")
    (directory / "tls.pem").write_bytes(certificate + key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "tls.pem")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return server, client


@asynccontextmanager
async def connected(
    directory: Path,
    protocol: Received,
    sent: bytes = b"",
    schedule: Callable[[TlsTransport], None] | None = None,
) -> AsyncIterator[tuple[TlsSession, socket.socket]]:
    """The session and socket of the peer of a connection with this protocol. The peer has `sent` something with the end of
    its handshake."""
    sessions = []
    for context, is_server in zip(contexts(directory), (True, False), strict=True):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=is_server)
        sessions.append(TlsSession(tls, incoming, outgoing))
    server, client = sessions
    for own, peer in ((client, server), (server, client), (client, server), (server, client)):
        try:
            own.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        peer.incoming.write(own.outgoing.read())
    if sent:
        client.tls.write(sent)
        server.incoming.write(client.outgoing.read())
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    ours.setblocking(False)
    await loop.create_connection(lambda: TlsTransport(server, protocol, schedule=schedule), sock=ours)
    with theirs:
        yield client, theirs
        protocol.transport.abort()
        await protocol.lost.wait()


def test_data_that_waits_for_its_turn_is_not_received_without_end(tmp_path: Path) -> None:
    """Also if the first of it came with the end of the handshake: uvloop begins to read after `connection_made`."""
    data = b"x" * 4_096

    async def flood() -> tuple[int, list[bytes]]:
        protocol, transports = Received(), list[TlsTransport]()

        def schedule(transport: TlsTransport) -> None:
            transports.append(transport)
            transport.read_later()

        async with connected(tmp_path, protocol, data, schedule) as (client, peer):
            peer.setblocking(False)
            accepted = 0
            while accepted < 4 << 20:
                client.tls.write(data)
                try:
                    async with asyncio.timeout(0.5):
                        await asyncio.get_running_loop().sock_sendall(peer, client.outgoing.read())
                except TimeoutError:
                    break  # Nothing more is received.
                accepted += len(data)
            before = list(protocol.data)
            transports[0].read_now()
            return accepted, [*before, protocol.data[0]]

    accepted, received = uvloop.run(flood())
    assert accepted < 4 << 20
    assert received == [data], "only when it is its turn"


def test_nothing_is_delivered_while_reading_is_paused(tmp_path: Path) -> None:
    async def test() -> None:
        protocol = Received(is_pausing=True)
        async with connected(tmp_path, protocol) as (peer, sock):
            for number in range(3):
                peer.tls.write(b"%d" % number)
            sock.send(peer.outgoing.read())  # Three records in one segment.
            for number in range(3):
                async with asyncio.timeout(60):
                    await protocol.changed.wait()
                protocol.changed.clear()
                await asyncio.sleep(0)
                assert protocol.data == [b"%d" % each for each in range(number + 1)]
                protocol.transport.resume_reading()

    uvloop.run(test())


def test_a_peer_that_does_not_read_does_not_keep_a_closed_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "FLUSH_SECONDS_MAX", 0.05)

    async def test() -> None:
        protocol = Received()
        async with connected(tmp_path, protocol):
            protocol.transport.write(bytes(8 << 20))
            protocol.transport.close()
            async with asyncio.timeout(60):
                await protocol.lost.wait()

    uvloop.run(test())
