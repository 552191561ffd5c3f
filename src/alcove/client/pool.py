"""The real transport: HTTP over TLS to one server, with reused connections.

Requests share at most `connections_max` connections, fairly between tenants (`FairSlots`: how long
requests take is decided by tenants' webhooks), and wait if all are in use; each stream has a connection of its own. For dedicated
planes, of which there may be many, all of these are carried by one connection, if the server can do that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from msgspec import Struct, structs

from alcove.client.carried_connections import CarriedConnections
from alcove.client.errors import ClientError, MalformedResponse, Unreachable
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.paths import RING0, tenant_of
from alcove.component.fair_slots import FairSlots
from alcove.http.client import HttpClientConnection, ReceivedResponse
from alcove.http.errors import HttpError, RequestNotSent
from alcove.http.pool import IdleConnections, PoolLimits

CONNECTIONS_MAX = 32
CONNECTING_MAX = 4
"""Limits concurrent TLS handshakes: they are expensive, and a hundred of them would stall the server."""
CONNECT_SECONDS_MAX = 10.0
RESPONSE_SECONDS_MAX = 30.0
RESPONSE_BYTES_MAX = 1 << 30
"""Of the home plane. Lists of all objects are large, but no response of the API server is larger than this."""
IDLE = PoolLimits(
    per_target_max=1_024,
    total_max=1_024,
    idle_seconds_max=200.0,
    # Two are kept so that a node that renews its lease every ten seconds needs no new handshake;
    # connections beyond those cost memory here and at the server, and are closed soon after a burst.
    kept=2,
    spare_seconds_max=10.0,
)
_WITH_BODY = ("POST", "PUT", "PATCH")


class RequestLimits(Struct, frozen=True, kw_only=True):
    connections_max: int = CONNECTIONS_MAX
    response_bytes_max: int = RESPONSE_BYTES_MAX
    response_seconds_max: float = RESPONSE_SECONDS_MAX
    is_carried: bool = False
    """Whether one connection carries all others, if the server can do that."""


HOME = RequestLimits()
DEDICATED = RequestLimits(
    connections_max=16, response_bytes_max=8 << 20, response_seconds_max=10.0, is_carried=True
)
"""For the API server of a dedicated plane, which may be slow, or send anything."""
STOCK = structs.replace(DEDICATED, is_carried=False)
"""For Kubernetes' own."""


class HttpPool:
    """Implements `transport.Transport`."""

    def __init__(self, user: KubeconfigUser, limits: RequestLimits = HOME) -> None:
        url = urlsplit(user.server)
        self._host = url.hostname or ""
        self._port = url.port or 443
        self._tls = user.tls()
        self._fixed = {"Host": url.netloc}
        if user.token:
            self._fixed["Authorization"] = f"Bearer {user.token}"
        self._limits = limits
        self._shares = FairSlots(limits.connections_max, unlimited=RING0)
        """By tenant. Requests of ring0 only need a free connection."""
        self._connecting = asyncio.Semaphore(CONNECTING_MAX)
        self._idle: IdleConnections[None, HttpClientConnection] = IdleConnections(IDLE)
        self._streams: set[HttpClientConnection] = set()
        self._carried: CarriedConnections | None = None
        if limits.is_carried:
            self._carried = CarriedConnections(self._connect_alone, self._fixed, limits.response_seconds_max)

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        sent = {**self._fixed, **headers}
        if body or method in _WITH_BODY:
            sent["Content-Length"] = str(len(body))
        tenant = tenant_of(path)
        await self._shares.take(tenant)
        try:
            connection = self._idle.take(None) or await self._connect(headers)
            async with asyncio.timeout(self._limits.response_seconds_max):
                response = await connection.exchange(
                    method, path, sent, body, bytes_max=self._limits.response_bytes_max
                )
            self._idle.put(None, connection)
            return response
        except (ConnectionError, HttpError, TimeoutError) as error:
            raise self._translated(error) from error
        finally:
            self._shares.release(tenant)

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[PooledStream]:
        connection = await self._connect(headers)
        self._streams.add(connection)
        try:
            try:
                async with asyncio.timeout(self._limits.response_seconds_max):
                    connection.begin("GET", path, {**self._fixed, **headers})
                    await connection.response()
            except (ConnectionError, HttpError, TimeoutError) as error:
                raise self._translated(error) from error
            yield PooledStream(connection)
        finally:
            self._streams.discard(connection)
            connection.abort()

    async def close(self) -> None:
        for connection in list(self._streams):
            connection.abort()
        self._idle.close()
        if self._carried is not None:
            self._carried.close()

    async def _connect(self, headers: Mapping[str, str]) -> HttpClientConnection:
        """`headers` are those of the first request."""
        connection: HttpClientConnection | None = None
        try:
            if self._carried is not None:
                connection = await self._carried.open(headers.get("User-Agent", "alcove"))
        except (ConnectionError, HttpError, TimeoutError) as error:
            raise self._translated(error) from error
        return connection or await self._connect_alone()

    async def _connect_alone(self) -> HttpClientConnection:
        loop = asyncio.get_running_loop()
        try:
            async with self._connecting, asyncio.timeout(CONNECT_SECONDS_MAX):
                _, connection = await loop.create_connection(
                    HttpClientConnection, self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError) as error:
            message = f"cannot connect to {self._host}:{self._port}: {error or 'timed out'}"
            raise Unreachable(message, sent=False) from error
        return connection

    def _translated(self, error: ConnectionError | HttpError | TimeoutError) -> ClientError:
        if isinstance(error, TimeoutError) and not isinstance(error, ConnectionError):
            if self._carried is not None:
                self._carried.unanswered()
            return Unreachable(f"no response within {self._limits.response_seconds_max:.0f} s", sent=True)
        return _translated(error)


class PooledStream:
    """Implements `transport.Stream`."""

    def __init__(self, connection: HttpClientConnection) -> None:
        self._connection = connection

    @property
    def status(self) -> int:
        return self._connection.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._connection.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._connection.chunks():
                yield chunk
        except (ConnectionError, HttpError) as error:
            raise _translated(error) from error


def _translated(error: Exception) -> ClientError:
    match error:
        case HttpError():
            return MalformedResponse(f"invalid HTTP response: {error}")
        case RequestNotSent():
            return Unreachable(str(error), sent=False)
    return Unreachable(str(error), sent=True)
