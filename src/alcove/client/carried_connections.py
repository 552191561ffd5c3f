"""Connections to one API server that are streams of a single one (`http/carrier.py`), if the server agrees to carry them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from alcove.http.carrier import PROTOCOL, CarrierProtocol, StreamCarrier
from alcove.http.client import HttpClientConnection

PATH = "/streams"
SILENT_SECONDS_MAX = 5.0
"""If a stream gets no answer, and nothing at all was received for longer, the connection is given up: its server may be gone."""
REFUSED_SECONDS = 600.0
"""How long a server that refuses is not asked again."""

Connect = Callable[[], Awaitable[HttpClientConnection]]


class CarriedConnections:
    def __init__(self, connect: Connect, headers: Mapping[str, str], seconds_max: float) -> None:
        """`connect` makes the connection that carries the streams; the server has to answer within `seconds_max`."""
        self._connect = connect
        self._headers = headers
        self._seconds_max = seconds_max
        self._carrier: StreamCarrier | None = None
        self._opening: asyncio.Task[None] | None = None
        self._refused_until = 0.0
        self._is_closed = False

    async def open(self, user_agent: str) -> HttpClientConnection | None:
        """A connection; None if the server carries no streams. `user_agent` is told to it. Raises ConnectionError, HttpError,
        TimeoutError and what `connect` raises."""
        if self._carrier is None or not self._carrier.is_open:
            if asyncio.get_running_loop().time() < self._refused_until:
                return None
            await self._share_opening(user_agent)
        if self._carrier is None:
            return None
        connection = HttpClientConnection()
        self._carrier.open(connection)
        return connection

    async def _share_opening(self, user_agent: str) -> None:
        """All that wait for the carrier share one attempt. Whoever is cancelled does not end it for the others."""
        if self._is_closed:
            raise _closed()
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open_carrier(user_agent))
            self._opening.add_done_callback(self._opened)
        opening, waiting = self._opening, asyncio.current_task()
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled() and not (waiting is not None and waiting.cancelling()):
                raise _closed() from None
            raise

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # Mark it as retrieved: no task may be waiting any more.

    async def _open_carrier(self, user_agent: str) -> None:
        self._carrier = None
        connection = await self._connect()
        try:
            async with asyncio.timeout(self._seconds_max):
                headers = {"User-Agent": user_agent, "Connection": "Upgrade", "Upgrade": PROTOCOL}
                connection.begin("GET", PATH, {**self._headers, **headers})
                head = await connection.response()
        except BaseException:
            connection.abort()
            raise
        if head.status != 101:
            connection.abort()
            self._refused_until = asyncio.get_running_loop().time() + REFUSED_SECONDS
            return
        self._carrier = StreamCarrier()
        connection.hand_over(CarrierProtocol(self._carrier))
        self._carrier.transport.resume_reading()

    def unanswered(self) -> None:
        """A stream got no answer in time."""
        carrier = self._carrier
        if (
            carrier is not None
            and asyncio.get_running_loop().time() - carrier.received_at > SILENT_SECONDS_MAX
        ):
            carrier.transport.abort()

    def close(self) -> None:
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._carrier is not None:
            self._carrier.transport.abort()


def _closed() -> ConnectionResetError:
    return ConnectionResetError("the connection was closed")
