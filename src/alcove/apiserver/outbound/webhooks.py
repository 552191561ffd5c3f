"""Posts a review to a webhook and returns its response, with limits of time, size and concurrency.

Idle connections are reused. Tenants are isolated: the number of calls is limited per tenant, what is sent and received
counts as buffered for the tenant, and tenants share neither targets, authorities nor connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Protocol
from urllib.parse import quote, urlsplit

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.outbound.authorities import context_of
from alcove.apiserver.outbound.errors import TooManyCalls, WebhookError, connection_message
from alcove.apiserver.outbound.webhook_dialer import WebhookDialer, WebhookTarget
from alcove.component import request_ids
from alcove.http.client import HttpClientConnection, ReceivedResponse
from alcove.http.errors import BodyTooLarge, HandshakeFailed, HeadTooLarge, HttpError
from alcove.http.group_counts import GroupCounts
from alcove.http.handshakes import Handshakes
from alcove.http.pool import IdleConnections, PoolLimits
from alcove.http.tls_transport import TlsTransport
from alcove.http.turns import ReadingTurns

CALLS_PER_TENANT_MAX = 64
RESPONSE_BYTES_MAX = 3 << 20
IDLE_PER_TENANT_MAX = 16
"""Idle connections to one tenant's webhooks; what is over it is closed, and the next call connects again."""
POOL = PoolLimits(per_target_max=4, total_max=256, per_owner_max=IDLE_PER_TENANT_MAX, idle_seconds_max=30.0)


class WebhookEndpoint(Struct, frozen=True):
    """A parsed client configuration."""

    target: WebhookTarget
    server_name: str
    path: str
    authority: str
    """The CA bundle in base64; empty for the machine's authorities."""

    @property
    def host(self) -> str:
        """The host as in a URL and a Host header: of a service always with the port, as in Kubernetes."""
        name = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        is_plain = self.target.port == 443 and not self.target.service
        return name if is_plain else f"{name}:{self.target.port}"


class WebhookCall(Protocol):
    """Calls a webhook for one tenant: posts to the webhook of a client configuration (`url` or `service`, and
    `caBundle`). The context has the response's body, which is buffered until its end. Raises WebhookError and
    TooManyRequests."""

    def __call__(
        self, client: Object, body: bytes, *, timeout_seconds: float
    ) -> AbstractAsyncContextManager[bytes]: ...


def read_client(client: Object) -> WebhookEndpoint:
    """Parses a client configuration. Raises WebhookError if it has no valid target."""
    authority = client.get("caBundle") or ""
    service = client.get("service")
    if service is not None:
        namespace, name = service.get("namespace", ""), service.get("name", "")
        server_name = f"{name}.{namespace}.svc"
        target = WebhookTarget(server_name, service.get("port") or 443, namespace, name)
        return WebhookEndpoint(target, server_name, _path(service.get("path") or "/"), authority)
    try:
        parts = urlsplit(client.get("url") or "")
        host, port = parts.hostname, parts.port or 443
    except ValueError as error:
        raise WebhookError("the webhook's url is invalid") from error
    if parts.scheme != "https" or not host:
        raise WebhookError("webhook configuration must have either service or URL")
    return WebhookEndpoint(WebhookTarget(host, port), host, _path(parts.path or "/"), authority)


def _path(text: str) -> str:
    """Quotes a path for a request line: no spaces, no line breaks."""
    return quote(text if text.startswith("/") else f"/{text}", safe="/%:@!$&'()*+,;=~-._")


_Key = tuple[TenantId, WebhookTarget, str]
Reserve = Callable[[int], None]


def _tenant_of(key: _Key) -> TenantId:
    return key[0]


class Webhooks:
    def __init__(
        self,
        dialer: WebhookDialer,
        reading: ReadingTurns | None = None,
        counts: GroupCounts | None = None,
        buffers: TenantBuffers | None = None,
    ) -> None:
        """`reading` lets tenants' webhooks have their part of the time for received data. `counts`: the calls of each
        tenant."""
        self._buffers = buffers or TenantBuffers()
        self._dialer = dialer
        self._reading = reading or ReadingTurns()
        self._idle: IdleConnections[_Key, HttpClientConnection] = IdleConnections(POOL, _tenant_of)
        self._handshakes = Handshakes()
        self._calls = GroupCounts() if counts is None else counts

    def close(self) -> None:
        self._idle.close()
        self._handshakes.close()
        self._dialer.close()

    def of(self, tenant: TenantId) -> WebhookCall:
        def call(
            client: Object, body: bytes, *, timeout_seconds: float
        ) -> AbstractAsyncContextManager[bytes]:
            return self.call(tenant, client, body, timeout_seconds=timeout_seconds)

        return call

    @asynccontextmanager
    async def call(
        self, tenant: TenantId, client: Object, body: bytes, *, timeout_seconds: float
    ) -> AsyncIterator[bytes]:
        """The body of the webhook's response, for the time of the context. Raises WebhookError, also if the status is
        not 200, and TooManyRequests if too much is buffered for the tenant."""
        endpoint = read_client(client)
        if self._calls.total(tenant) >= CALLS_PER_TENANT_MAX:
            raise TooManyCalls
        with self._buffers.reserving(tenant) as reserve:
            reserve(len(body))
            self._calls.add(tenant, 1)
            path = f"{endpoint.path}?timeout={max(1, round(timeout_seconds))}s"
            try:
                work = self._post(tenant, endpoint, path, body, reserve)
                response = await self._within(timeout_seconds, work)
            except WebhookError as error:
                raise WebhookError(f'Post "https://{endpoint.host}{path}": {error}') from error
            finally:
                self._calls.add(tenant, -1)
            if response.status != 200:
                raise WebhookError(f"the webhook answered with status {response.status}, not 200")
            yield response.body

    async def _within(self, seconds: float, work: Awaitable[ReceivedResponse]) -> ReceivedResponse:
        """Translates all network errors to WebhookError."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            raise WebhookError("context deadline exceeded") from error
        except OSError as error:
            raise WebhookError(connection_message(error)) from error
        except HttpError as error:
            raise _malformed(error) from error
        except ValueError as error:  # The host is no valid TLS server name.
            raise WebhookError("the webhook's host is not valid") from error

    async def _post(
        self, tenant: TenantId, endpoint: WebhookEndpoint, path: str, body: bytes, reserve: Reserve
    ) -> ReceivedResponse:
        key = (tenant, endpoint.target, endpoint.authority)
        connection = self._idle.take(key)
        if connection is not None:
            # The webhook may have closed the idle connection just now; then it has not read the request.
            with suppress(ConnectionError):
                return await self._exchange(key, connection, endpoint, path, body, reserve)
        connection = await self._open(tenant, endpoint)
        return await self._exchange(key, connection, endpoint, path, body, reserve)

    async def _open(self, tenant: TenantId, endpoint: WebhookEndpoint) -> HttpClientConnection:
        stream = await self._dialer.dial(tenant, endpoint.target)
        connection = HttpClientConnection()
        try:
            session = await self._handshakes.perform(
                tenant, stream, partial(context_of, endpoint.authority), endpoint.server_name
            )
            schedule = partial(self._reading.read, tenant)
            await stream.hand_over(TlsTransport(session, connection, schedule=schedule))
        except BaseException:
            stream.abort()
            raise
        return connection

    async def _exchange(
        self,
        key: _Key,
        connection: HttpClientConnection,
        endpoint: WebhookEndpoint,
        path: str,
        body: bytes,
        reserve: Reserve,
    ) -> ReceivedResponse:
        headers = {
            "Host": endpoint.host,
            "User-Agent": "alcove",
            "Accept": "application/json",
            "Content-Type": "application/json",
            **request_ids.outgoing(),
            "Content-Length": str(len(body)),
        }
        response = await connection.exchange(
            "POST", path, headers, body, bytes_max=RESPONSE_BYTES_MAX, count_bytes=reserve
        )
        self._idle.put(key, connection)
        return response


def _malformed(error: HttpError) -> WebhookError:
    match error:
        case HandshakeFailed():
            return WebhookError(f"tls: {error}")
        case HeadTooLarge():
            return WebhookError("the webhook's response has too many headers")
        case BodyTooLarge():
            return WebhookError(f"the webhook's response has more than {RESPONSE_BYTES_MAX} bytes")
    return WebhookError("the webhook's response is not valid HTTP/1.1")
