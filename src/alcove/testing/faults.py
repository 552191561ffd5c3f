"""Fault injection between a client and its server: a transport that drops, delays and refuses requests.

The server behind it is real. Requests are lost as on a network: before they arrive, or after they were
processed and before the response arrives.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import orjson
from msgspec import Struct

from alcove.api.errors import ApiError, Conflict, Expired, NotFound, ServiceUnavailable, status
from alcove.api.resources import NAMESPACES
from alcove.client.errors import Unreachable
from alcove.client.transport import Stream, Transport
from alcove.http.client import ReceivedResponse


class Odds(Struct, frozen=True, kw_only=True):
    """Probability of each fault, per request or per chunk of a stream."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    busy: float = 0.0
    conflict: float = 0.0
    """Conflict of an update, as if another writer had been faster."""
    unknown_place: float = 0.0
    """NotFound for a create in a namespace, as if the server did not know the namespace yet."""
    slow: float = 0.0
    slow_seconds_max: float = 0.05
    stream_lost: float = 0.0
    stream_expired: float = 0.0


CALM = Odds()


class FaultyTransport:
    """Implements `client.transport.Transport` over another one."""

    def __init__(self, inner: Transport, chance: random.Random, odds: Odds = CALM) -> None:
        self._inner = inner
        self._chance = chance
        self.odds = odds
        self.requests: list[str] = []
        """Requests so far, as `METHOD path`."""

    def _happens(self, odds: float) -> bool:
        return odds > 0 and self._chance.random() < odds

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        self.requests.append(f"{method} {path}")
        odds = self.odds
        if self._happens(odds.slow):
            await asyncio.sleep(self._chance.random() * odds.slow_seconds_max)
        if self._happens(odds.lost_before):
            raise Unreachable("lost on the way", sent=True)
        if self._happens(odds.busy):
            return _refused(ServiceUnavailable("busy"))
        if method in ("PUT", "PATCH") and self._happens(odds.conflict):
            return _refused(Conflict("another was faster"))
        if method == "POST" and "/namespaces/" in path and self._happens(odds.unknown_place):
            return _refused(NotFound.of(NAMESPACES, path.partition("/namespaces/")[2].partition("/")[0]))
        response = await self._inner.request(method, path, headers, body)
        if self._happens(odds.lost_after):
            raise Unreachable("lost on the way back", sent=True)
        return response

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        self.requests.append(f"GET {path}")
        async with self._inner.stream(path, headers) as stream:
            yield _FaultyStream(stream, self)

    async def close(self) -> None:
        await self._inner.close()

    def spoil(self, chunk: bytes) -> bytes:
        """A chunk of a stream, or an injected fault instead. Raises Unreachable."""
        if self._happens(self.odds.stream_lost):
            raise Unreachable("the stream broke", sent=True)
        if self._happens(self.odds.stream_expired):
            event = {"type": "ERROR", "object": status(Expired("too old resource version"))}
            return orjson.dumps(event) + b"\n"
        return chunk


class _FaultyStream:
    def __init__(self, inner: Stream, transport: FaultyTransport) -> None:
        self._inner = inner
        self._transport = transport

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner.chunks():
            yield self._transport.spoil(chunk)


def _refused(error: ApiError) -> ReceivedResponse:
    return ReceivedResponse(error.code, {}, orjson.dumps(status(error)))
