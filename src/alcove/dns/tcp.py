"""DNS over TCP: length-prefixed messages, any number on one connection.

Connections, idle time and pending queries are limited, against clients that never send, never read or never
stop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, cast

from alcove.dns.network_resolver import NetworkResolver, PendingQuery

CONNECTIONS_MAX = 64
"""The connections of one network; when exceeded, the longest idle one is closed."""
IDLE_SECONDS = 10.0
PENDING_MAX = 32
TURN_SECONDS = 0.001
"""For which queries of one connection, or of one socket, are answered before others have their turn."""
_LENGTH_BYTES = 2

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class ConnectionLimit:
    """The connections of one network, the longest idle one first."""

    def __init__(self) -> None:
        self._open: dict[DnsTcpConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def touch(self, connection: "DnsTcpConnection") -> None:
        self._open.pop(connection, None)
        self._open[connection] = None
        if len(self._open) > CONNECTIONS_MAX:
            next(iter(self._open)).abort()

    def drop(self, connection: "DnsTcpConnection") -> None:
        self._open.pop(connection, None)

    def close_all(self) -> None:
        for connection in list(self._open):
            connection.abort()


class DnsTcpConnection(asyncio.Protocol):
    def __init__(self, network: NetworkResolver, limit: ConnectionLimit, spawn: Spawn) -> None:
        self._network = network
        self._limit = limit
        self._spawn = spawn
        self._received = bytearray()
        self._pending = 0
        self._writable = True
        self._is_half_closed = False
        self._is_waiting = False
        """Whether the next turn comes by itself."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._received_at = self._loop.time()
        self._idle = self._loop.call_later(IDLE_SECONDS, self._check_idle)
        self._limit.touch(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._idle.cancel()
        self._limit.drop(self)

    def abort(self) -> None:
        self._limit.drop(self)
        self._transport.abort()

    def pause_writing(self) -> None:
        self._writable = False
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable = True
        self._process()

    def data_received(self, data: bytes) -> None:
        self._received_at = self._loop.time()
        self._limit.touch(self)
        self._received += data
        self._process()

    def eof_received(self) -> bool:
        """The client sends no more queries, but may wait for replies."""
        self._is_half_closed = True
        return bool(self._pending or self._is_waiting)

    def _process(self) -> None:
        """Answers all complete queries, as long as the client reads the replies; in turns with other connections."""
        end_of_turn = perf_counter() + TURN_SECONDS
        while self._writable and self._pending < PENDING_MAX and not self._transport.is_closing():
            length = int.from_bytes(self._received[:_LENGTH_BYTES], "big")
            end = _LENGTH_BYTES + length
            if len(self._received) < max(end, _LENGTH_BYTES):
                self._transport.resume_reading()
                return
            packet = bytes(self._received[_LENGTH_BYTES:end])
            del self._received[:end]
            self._answer(packet)
            if perf_counter() > end_of_turn:
                self._go_on_later()
                return
        self._transport.pause_reading()

    def _go_on_later(self) -> None:
        self._transport.pause_reading()
        if not self._is_waiting:
            self._is_waiting = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_waiting = False
        if not self._transport.is_closing():
            self._process()
            if self._is_half_closed and not (self._pending or self._is_waiting):
                self._transport.close()

    def _answer(self, packet: bytes) -> None:
        reply = self._network.message(packet)
        match reply:
            case None:
                self._transport.close()
            case PendingQuery():
                self._pending += 1
                self._spawn(self._finish(reply))
            case _:
                self._send(reply)

    async def _finish(self, pending: PendingQuery) -> None:
        try:
            self._send(await self._network.finish(pending))
        finally:
            self._pending -= 1
        if self._is_half_closed and not self._pending:
            self._transport.close()
        else:
            self._process()

    def _send(self, reply: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(len(reply).to_bytes(_LENGTH_BYTES, "big") + reply)

    def _check_idle(self) -> None:
        idle_seconds = self._loop.time() - self._received_at
        if idle_seconds >= IDLE_SECONDS and not self._pending:
            self._transport.close()
            return
        self._idle = self._loop.call_later(max(IDLE_SECONDS - idle_seconds, 1.0), self._check_idle)
