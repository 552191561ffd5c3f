"""The real transport: kept connections to one server, over TLS.

Requests share at most `connections_max` connections, fairly between tenants (`shares.py`), and wait for one
beyond that; each stream has a connection of its own, for as long as it lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from alcove.client.connection import Connection
from alcove.client.errors import Unreachable
from alcove.client.kubeconfig import Account
from alcove.client.shares import Shares, sharer
from alcove.client.transport import Response

CONNECTIONS_MAX = 32
CONNECTING_MAX = 4
"""Handshakes are the most work that a server has with a client: a hundred at once would stop it for everybody."""
CONNECT_SECONDS_MAX = 10.0
ANSWER_SECONDS_MAX = 30.0
IDLE_SECONDS_MAX = 200.0
"""Less than the server's own: who closes first decides whether a request is lost."""
SPARE_SECONDS_MAX = 10.0
"""What only a burst needed is closed after this: a connection costs memory here and at the server."""
KEPT = 2
"""So many are kept even so: a node that renews its lease every ten seconds shakes hands once."""


class HttpPool:
    """Implements `transport.Transport`."""

    def __init__(self, account: Account, *, connections_max: int = CONNECTIONS_MAX) -> None:
        url = urlsplit(account.server)
        self._host = url.hostname or ""
        self._port = url.port or 443
        self._tls = account.tls()
        fixed = f"Host: {url.netloc}\r\n"
        if account.token:
            fixed += f"Authorization: Bearer {account.token}\r\n"
        self._fixed = fixed
        self._shares = Shares(connections_max)
        self._connecting = asyncio.Semaphore(CONNECTING_MAX)
        self._idle: list[tuple[Connection, float]] = []
        """Those used last are at the end, and taken first."""
        self._closing: asyncio.TimerHandle | None = None
        self._streams: set[Connection] = set()

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        data, who = self._encoded(method, path, headers, body), sharer(path)
        await self._shares.take(who)
        try:
            connection = self._take_idle() or await self._connect()
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                response = await connection.send(data)
            self._put_back(connection)
            return response
        except TimeoutError as error:
            raise Unreachable(f"no answer within {ANSWER_SECONDS_MAX:.0f} s", sent=True) from error
        finally:
            self._shares.give_back(who)

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Connection]:
        connection = await self._connect()
        self._streams.add(connection)
        try:
            try:
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    await connection.open(self._encoded("GET", path, headers, b""))
            except TimeoutError as error:
                raise Unreachable(f"no answer within {ANSWER_SECONDS_MAX:.0f} s", sent=True) from error
            yield connection
        finally:
            self._streams.discard(connection)
            connection.close()

    async def close(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        for connection in (*self._streams, *(idle for idle, _ in self._idle)):
            connection.close()
        self._idle.clear()

    def _encoded(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"{method} {path} HTTP/1.1\r\n{self._fixed}"]
        lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}\r\n")
        lines.append("\r\n")
        return "".join(lines).encode("latin-1") + body

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with self._connecting, asyncio.timeout(CONNECT_SECONDS_MAX):
                _, connection = await loop.create_connection(
                    Connection, self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError) as error:
            told = f"cannot connect to {self._host}:{self._port}: {error or 'it takes too long'}"
            raise Unreachable(told, sent=False) from error
        return connection

    def _take_idle(self) -> Connection | None:
        """The one used last: the others grow old and are closed."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS_MAX
        while self._idle:
            connection, since = self._idle.pop()
            if connection.is_usable and since > oldest:
                return connection
            connection.close()
        return None

    def _put_back(self, connection: Connection) -> None:
        if not connection.is_usable:
            return
        loop = asyncio.get_running_loop()
        self._idle.append((connection, loop.time()))
        if self._closing is None and len(self._idle) > KEPT:
            self._closing = loop.call_later(SPARE_SECONDS_MAX, self._close_spare)

    def _close_spare(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - SPARE_SECONDS_MAX
        while len(self._idle) > KEPT and self._idle[0][1] <= oldest:
            self._idle.pop(0)[0].close()
        is_over = len(self._idle) <= KEPT
        self._closing = None if is_over else loop.call_later(SPARE_SECONDS_MAX, self._close_spare)
