"""The HTTP server: listens, holds the open connections, and closes those that are idle or too slow."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from alcove.http.accepting import Acceptor, listen
from alcove.http.carrier import PROTOCOL, StreamCarrier
from alcove.http.connections import ConnectionSlot, ConnectionTable, CountBytes
from alcove.http.errors import HttpError
from alcove.http.group_counts import GroupCounts
from alcove.http.limits import LIMITS, HttpLimits
from alcove.http.messages import HttpRequest, HttpResponse
from alcove.http.serverconnection import HttpHandler, HttpServerConnection
from alcove.http.turns import ReadingTurns, Turns

SWEEP_SECONDS = 5.0
SENDING_SECONDS = 0.001
"""For slices of large bodies in one iteration of the loop; further ones are written in the next."""


def plain_error(error: HttpError) -> HttpResponse:
    return HttpResponse(error.status, f"{error}\n".encode(), b"text/plain; charset=utf-8")


class HttpServer:
    """`async with HttpServer(…)` listens; leaving it stops accepting requests, ends streams and closes
    connections."""

    def __init__(
        self,
        handler: HttpHandler,
        host: str | Sequence[str],
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        identify: Callable[[bytes], object] | None = None,
        render_error: Callable[[HttpError], HttpResponse] = plain_error,
        streams_body: Callable[[HttpRequest], bool] = lambda _request: False,
        group_of: Callable[[object], str] | None = None,
        unlimited_group: str | None = None,
        reading: ReadingTurns | None = None,
        count_bytes: CountBytes = lambda _group, _count: None,
        limits: HttpLimits = LIMITS,
        counts: GroupCounts | None = None,
        is_port_shared: bool = False,
        listeners: Sequence[socket.socket] | None = None,
    ) -> None:
        """`host`: one address to listen on, or several with the same port. `identify`: maps a client's
        certificate (DER) to the `peer` of its requests; called once per connection. `render_error`: the
        response, with a body of bytes, to a request that cannot be read or whose handler failed.
        `streams_body`: whether a request with a body is handled as soon as its head is received, however short
        the body is, and without a size limit. `group_of`: the group that a `peer`'s connections are counted for,
        empty if that is decided by its requests (`HttpRequest.connection`); None for a server that does not
        authenticate its clients. `unlimited_group`, `counts` and `count_bytes`: see `ConnectionTable`; connections of that group may carry
        streams (`carrier`), which are counted as connections. `reading`:
        shared with other connections of this loop. `is_port_shared`: whether other processes listen on the same port,
        each for a part of the connections. `listeners`: sockets that listen already, instead of `host` and `port`; they are
        closed with the server."""
        self.handle = handler
        self._hosts = (host,) if isinstance(host, str) else host
        self._port = port
        self._tls = tls
        self._identify = identify
        self.render_error = render_error
        self.streams_body = streams_body
        self._group_of = group_of
        self._carried_group = unlimited_group
        self.limits = limits
        self.connections = ConnectionTable(
            limits, unlimited_group, has_groups=group_of is not None, counts=counts, count_bytes=count_bytes
        )
        self._is_port_shared = is_port_shared
        self._listeners = listeners
        self._connections: set[HttpServerConnection] = set()
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sending: Turns[HttpServerConnection] = Turns(SENDING_SECONDS, HttpServerConnection.write_slice)
        """Connections that have a slice of a large body to write, by their group."""
        self.reading = reading or ReadingTurns()
        self.stopping = False

    async def __aenter__(self) -> HttpServer:
        self._loop = asyncio.get_running_loop()
        self._acceptor = Acceptor(
            partial(HttpServerConnection, self), self.connections, self._tls, self.limits, self.reading
        )
        listeners = self._listeners
        if listeners is None:
            listeners = await listen(self._hosts, self._port, is_port_shared=self._is_port_shared)
        self._acceptor.accept(listeners)
        self._close_expired()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._connections):
            connection.transport.close()
        # One loop iteration for the transports to flush and call connection_lost.
        await asyncio.sleep(0)

    @property
    def port(self) -> int:
        assert self._acceptor is not None
        return self._acceptor.port

    def close_peers(self, selects: Callable[[object], bool]) -> int:
        """Close the connections whose `peer` is selected, at once and with whatever they carry; returns how
        many."""
        selected = [connection for connection in self._connections if selects(connection.peer)]
        for connection in selected:
            connection.transport.abort()
        return len(selected)

    # Called by connections

    def answer(
        self, connection: HttpServerConnection, request: HttpRequest
    ) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        if request.headers.get("upgrade") == PROTOCOL and self._may_carry(connection.peer):
            return self._carry(connection.address)
        return self.handle(request)

    async def _carry(self, address: str) -> HttpResponse:
        carrier = StreamCarrier(partial(self._accept_stream, address))
        return HttpResponse(101, carrier, b"", [(b"Connection", b"Upgrade"), (b"Upgrade", PROTOCOL.encode())])

    def _may_carry(self, peer: object) -> bool:
        group = self._group_of(peer) if self._group_of is not None and peer is not None else ""
        return bool(group) and group == self._carried_group

    def _accept_stream(self, address: str) -> HttpServerConnection | None:
        slot = None if self.stopping else self.connections.open(address, self._loop.time())
        return HttpServerConnection(self, slot) if slot is not None else None

    def identify(self, tls: ssl.SSLObject | None) -> object:
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        return self._identify(certificate) if certificate and self._identify is not None else None

    def opened(self, connection: HttpServerConnection, slot: ConnectionSlot) -> None:
        if slot.is_closed:
            # The handshake was ended, and nevertheless completed.
            connection.transport.abort()
            return
        slot.is_made, slot.close = True, connection.transport.abort
        self._connections.add(connection)
        connection.deadline = self.idle_deadline()
        group = self._group_of(connection.peer) if self._group_of is not None else ""
        if group:
            # If the group has too many connections, the handler of the first request answers that.
            slot.claim(group)

    def lost(self, connection: HttpServerConnection, slot: ConnectionSlot) -> None:
        self._connections.discard(connection)
        if slot.is_made:
            self.connections.closed(slot)

    def send_later(self, connection: HttpServerConnection) -> None:
        """Calls the connection's `write_slice` when it is its turn."""
        self._sending.add(connection.slot.group, connection)

    def idle_deadline(self) -> float:
        return self._loop.time() + self.limits.idle_seconds_max

    def head_deadline(self) -> float:
        return self._loop.time() + self.limits.head_seconds_max

    def response_deadline(self) -> float:
        return self._loop.time() + self.limits.response_seconds_max

    def linger_deadline(self) -> float:
        return self._loop.time() + self.limits.linger_seconds_max

    def _close_expired(self) -> None:
        """Close connections past their deadline. There is one timer for all: a timer per request would cost
        more than the request."""
        now = self._loop.time()
        for connection in list(self._connections):
            if 0.0 < connection.deadline < now:
                connection.expire()
        if self._group_of is not None:
            self.connections.close_expired(now)
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._close_expired)
