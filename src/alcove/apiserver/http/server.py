"""Listening: sockets, TLS, the connections that are open, and those that dawdle."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from alcove.api.errors import ApiError
from alcove.apiserver.http.messages import Request, Response
from alcove.apiserver.http.protocol import Connection, Handler
from alcove.apiserver.identity import Identity

IDLE_SECONDS_MAX = 300.0
SWEEP_SECONDS = 5.0
CONNECTIONS_MAX = 20_000

Identify = Callable[[bytes], Identity]
"""A client certificate (DER) to the identity it names; raises `Unauthorized`."""


class Server:
    """`async with Server(…)` listens; leaving it stops taking requests, ends streams and closes."""

    def __init__(
        self,
        handler: Handler,
        host: str | Sequence[str],
        port: int,
        tls: ssl.SSLContext | None,
        identify: Identify | None,
        hands_on: Callable[[str], bool] = lambda _path: False,
    ) -> None:
        """`host`: one address to listen on, or several at the same port. `hands_on`: whether a request to that path is
        handled before its body has come, whatever its size."""
        self._handler = handler
        self._host = host
        self._port = port
        self._tls = tls
        self._identify = identify
        self.hands_on = hands_on
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self.stopping = False

    async def __aenter__(self) -> Server:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self), self._host, self._port, ssl=self._tls, backlog=4096, reuse_address=True
        )
        self._sweep()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.transport.close()
        # One turn for the transports to flush and call connection_lost.
        await asyncio.sleep(0)

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.sockets[0].getsockname()[1])

    # The connections' side

    def handle(self, request: Request) -> Response | Coroutine[Any, Any, Response]:
        return self._handler(request)

    def identify(self, tls: ssl.SSLObject | None) -> Identity | ApiError | None:
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if not certificate or self._identify is None:
            return None
        try:
            return self._identify(certificate)
        except ApiError as refused:
            return refused

    def opened(self, connection: Connection) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            connection.transport.abort()
            return
        self._connections.add(connection)
        connection.deadline = self.idle_deadline()

    def lost(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def idle_deadline(self) -> float:
        return asyncio.get_running_loop().time() + IDLE_SECONDS_MAX

    def _sweep(self) -> None:
        """Closes idle connections. One timer for all: a timer per request would cost more than the request."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self._connections):
            if 0.0 < connection.deadline < now:
                connection.transport.close()
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep)
