"""The door: posts a review to a webhook and returns its answer, within bounds of time, size and number.

Connections are kept for a while and used again. A tenant's calls are its own: their number is bounded,
and nothing about one tenant's targets, authorities or connections is shared with another.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from typing import Protocol
from urllib.parse import quote, urlsplit

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.outbound import http
from alcove.apiserver.outbound.dialing import Dialer, Target
from alcove.apiserver.outbound.errors import TooManyCalls, WebhookError
from alcove.apiserver.outbound.http import Answer, Connection

CALLS_PER_TENANT_MAX = 64
IDLE_SECONDS = 30.0
IDLE_PER_TARGET_MAX = 4
IDLE_MAX = 256


class Endpoint(Struct, frozen=True):
    """A client configuration, read."""

    target: Target
    server_name: str
    path: str
    authority: str
    """The CA bundle in base64; empty: the machine's own authorities."""

    @property
    def host(self) -> str:
        """As a URL and a Host header have it."""
        name = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        return name if self.target.port == 443 else f"{name}:{self.target.port}"


class Call(Protocol):
    """One tenant's way out: posts to the webhook of a client configuration (`url` or `service`, and
    `caBundle`), returns what it answers. Raises WebhookError."""

    def __call__(self, client: Object, body: bytes, *, timeout_seconds: float) -> Awaitable[bytes]: ...


def read_client(client: Object) -> Endpoint:
    """Raises WebhookError for a configuration that names nothing."""
    authority = client.get("caBundle") or ""
    service = client.get("service")
    if service is not None:
        namespace, name = service.get("namespace", ""), service.get("name", "")
        server_name = f"{name}.{namespace}.svc"
        target = Target(server_name, service.get("port") or 443, namespace, name)
        return Endpoint(target, server_name, _path(service.get("path") or "/"), authority)
    try:
        parts = urlsplit(client.get("url") or "")
        host, port = parts.hostname, parts.port or 443
    except ValueError as error:
        raise WebhookError("the webhook's url cannot be read") from error
    if parts.scheme != "https" or not host:
        raise WebhookError("webhook configuration must have either service or URL")
    return Endpoint(Target(host, port), host, _path(parts.path or "/"), authority)


def _path(text: str) -> str:
    """As a request line may carry it: no spaces, no line ends."""
    return quote(text if text.startswith("/") else f"/{text}", safe="/%:@!$&'()*+,;=~-._")


@lru_cache(maxsize=128)
def _context(authority: str) -> ssl.SSLContext:
    """Raises WebhookError."""
    if not authority:
        return ssl.create_default_context()
    try:
        pem = base64.b64decode(authority, validate=True).decode("ascii")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=pem)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise WebhookError("unable to load root certificates from the webhook's caBundle") from error
    return context


class _Idle:
    """A connection that waits for its next use, and closes if none comes."""

    __slots__ = ("connection", "timer")

    def __init__(self, connection: Connection, expire: Callable[[_Idle], None]) -> None:
        self.connection = connection
        self.timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, expire, self)


_Key = tuple[TenantId, Target, str]


class Webhooks:
    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._idle: dict[_Key, list[_Idle]] = {}
        self._idle_count = 0
        self._calls: dict[TenantId, int] = {}

    def close(self) -> None:
        for waiting in list(self._idle.values()):
            for each in waiting:
                each.timer.cancel()
                each.connection.close()
        self._idle.clear()
        self._dialer.close()

    def of(self, tenant: TenantId) -> Call:
        def call(client: Object, body: bytes, *, timeout_seconds: float) -> Awaitable[bytes]:
            return self.call(tenant, client, body, timeout_seconds=timeout_seconds)

        return call

    async def call(self, tenant: TenantId, client: Object, body: bytes, *, timeout_seconds: float) -> bytes:
        """The body of the webhook's answer, which was 200. Raises WebhookError."""
        endpoint = read_client(client)
        if self._calls.get(tenant, 0) >= CALLS_PER_TENANT_MAX:
            raise TooManyCalls
        self._calls[tenant] = self._calls.get(tenant, 0) + 1
        path = f"{endpoint.path}?timeout={max(1, round(timeout_seconds))}s"
        try:
            answer = await self._within(timeout_seconds, self._post(tenant, endpoint, path, body))
        except WebhookError as error:
            raise WebhookError(f'Post "https://{endpoint.host}{path}": {error}') from error
        finally:
            self._calls[tenant] -= 1
            if not self._calls[tenant]:
                del self._calls[tenant]
        if answer.status != 200:
            raise WebhookError(f"the webhook answered with status {answer.status}, not 200")
        return bytes(answer.body)

    async def _within(self, seconds: float, work: Awaitable[Answer]) -> Answer:
        """Translates what a network can do to us."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            raise WebhookError("context deadline exceeded") from error
        except ssl.SSLCertVerificationError as error:
            raise WebhookError(f"tls: failed to verify certificate: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise WebhookError(f"tls: {error.reason or 'the handshake failed'}") from error
        except OSError as error:
            # The error's own words may name an address.
            raise WebhookError(os.strerror(error.errno).lower() if error.errno else str(error)) from error
        except ValueError as error:  # a host that TLS cannot name
            raise WebhookError("the webhook's host is not valid") from error

    async def _post(self, tenant: TenantId, endpoint: Endpoint, path: str, body: bytes) -> Answer:
        key = (tenant, endpoint.target, endpoint.authority)
        connection = self._take(key)
        if connection is not None:
            # The other side may have closed it at this very moment; then it has not read the request.
            with suppress(ConnectionError):
                return await self._exchange(key, connection, endpoint, path, body)
        connection = await self._open(tenant, endpoint)
        return await self._exchange(key, connection, endpoint, path, body)

    async def _open(self, tenant: TenantId, endpoint: Endpoint) -> Connection:
        context = _context(endpoint.authority)
        sock = await self._dialer.dial(tenant, endpoint.target)
        return await http.secure(sock, context, endpoint.server_name)

    async def _exchange(
        self, key: _Key, connection: Connection, endpoint: Endpoint, path: str, body: bytes
    ) -> Answer:
        try:
            answer = await connection.post(endpoint.host, path, body)
        except BaseException:
            connection.close()
            raise
        if answer.is_kept:
            self._keep(key, connection)
        else:
            connection.close()
        return answer

    # Connections that wait for their next use

    def _take(self, key: _Key) -> Connection | None:
        waiting = self._idle.get(key, [])
        while waiting:
            connection = self._drop(key, waiting[-1])
            if connection.is_open:
                return connection
            connection.close()
        return None

    def _keep(self, key: _Key, connection: Connection) -> None:
        if len(self._idle.get(key, ())) >= IDLE_PER_TARGET_MAX or self._idle_count >= IDLE_MAX:
            connection.close()
            return
        idle = _Idle(connection, lambda expired: self._drop(key, expired).close())
        self._idle.setdefault(key, []).append(idle)
        self._idle_count += 1

    def _drop(self, key: _Key, idle: _Idle) -> Connection:
        idle.timer.cancel()
        waiting = self._idle[key]
        waiting.remove(idle)
        if not waiting:
            del self._idle[key]
        self._idle_count -= 1
        return idle.connection
