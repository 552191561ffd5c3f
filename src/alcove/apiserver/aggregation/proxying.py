"""Forwards requests for aggregated APIs to their extension servers, and relays the responses.

Bodies are relayed with backpressure in both directions; an upgraded connection is relayed as bytes. A request holds
no seat of flow control while it waits, but one of its tenant's slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import quote

from alcove.api.errors import ServiceUnavailable
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.aggregation.connections import ExtensionConnections, translated
from alcove.apiserver.aggregation.front_proxy import HeaderField, identity_headers
from alcove.apiserver.aggregation.registrations import ExtensionServer, Registration, Registrations
from alcove.apiserver.call import ApiCall
from alcove.apiserver.identity import Identity
from alcove.apiserver.streams import proxyheaders
from alcove.apiserver.streams.connect import StreamLimits
from alcove.apiserver.streams.proxy import BodySender
from alcove.apiserver.streams.proxy_targets import unreached
from alcove.apiserver.streams.relays import BodyRelay, StreamRelay
from alcove.http.client import HttpClientConnection, ReceivedResponse
from alcove.http.errors import RequestNotSent
from alcove.http.messages import HttpRequest, HttpResponse

PER_TENANT_MAX = 128
"""Requests to one tenant's extension servers that are open at the same time; one more is answered with 429."""
TOTAL_MAX = 2_048
"""Requests to all extension servers; one more is answered with 429. A tenant may have at most as many as are free."""
REQUEST_SECONDS_MAX = 60.0
"""For a whole request, as in Kubernetes; for a watch or an upgrade, until its response begins."""
WATCH_SECONDS_MAX = 4 * 3_600.0
RING0_RESPONSE_BYTES_MAX = 4 << 20
"""Size of a tenant's extension server's response to a caller of ring0; a longer one is cut off."""
_BODILESS = frozenset((204, 304))
_REPEATABLE = frozenset(("GET", "HEAD"))
_OCTETS = b"application/octet-stream"
_SAFE = "/*:@!$&'()+,;=~-._"


class ExtensionProxy:
    def __init__(
        self,
        registrations: Registrations,
        connections: ExtensionConnections,
        release: Callable[[ApiCall], None],
        counting: StreamLimits | None = None,
    ) -> None:
        """`release` releases a call's flow control seats."""
        self._registrations = registrations
        self._connections = connections
        self._release = release
        self.counting = counting or StreamLimits(PER_TENANT_MAX, TOTAL_MAX)

    def find(self, call: ApiCall) -> Registration | None:
        """The registration of the group version that the request is for; None if this server serves it."""
        return self._registrations.find(call.tenant, call.target)

    def answer(self, call: ApiCall, registration: Registration) -> Awaitable[HttpResponse]:
        """Raises ApiError."""
        # The availability controller asks for the discovery document, whatever it found before.
        is_check = call.identity.is_system and not call.target.is_resource
        if not registration.is_available and not is_check:
            raise ServiceUnavailable("service unavailable")
        query = f"?{call.request.raw_query}" if call.request.raw_query else ""
        return self.forward(call, registration, quote(call.target.path, safe=_SAFE) + query)

    async def forward(self, call: ApiCall, registration: Registration, target: str) -> HttpResponse:
        """The extension server's response to the request, at another path and query. Raises ApiError."""
        headers = _headers(call.request, registration, call.identity, call.tenant)
        done = self.counting.enter(call.tenant)
        self._release(call)
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                connection = await self._send(call, registration, target, headers)
            return self._response(call, registration, connection, done)
        except TimeoutError as error:
            done()
            raise unreached("context deadline exceeded") from error
        except BaseException:
            done()
            raise

    async def fetch(
        self, tenant: TenantId, registration: Registration, path: str, identity: Identity, bytes_max: int
    ) -> ReceivedResponse:
        """A GET by this server itself. Raises ApiError."""
        fields = [
            ("Host", f"{registration.server.name}:{registration.server.port}"),
            ("Accept", "application/json"),
            ("User-Agent", "alcove"),
            *identity_headers(identity, tenant),
        ]
        done = self.counting.enter(tenant)
        try:
            with translated():
                return await self._get(tenant, registration.server, path, fields, bytes_max)
        finally:
            done()

    async def _get(
        self, tenant: TenantId, server: ExtensionServer, path: str, fields: list[HeaderField], bytes_max: int
    ) -> ReceivedResponse:
        connection = self._connections.take_idle(tenant, server)
        if connection is not None:
            # The server may have closed the idle connection just now.
            with suppress(ConnectionError):
                return await self._exchange_all(tenant, server, connection, path, fields, bytes_max)
        connection = await self._connections.open(tenant, server)
        return await self._exchange_all(tenant, server, connection, path, fields, bytes_max)

    async def _exchange_all(
        self,
        tenant: TenantId,
        server: ExtensionServer,
        connection: HttpClientConnection,
        path: str,
        fields: list[HeaderField],
        bytes_max: int,
    ) -> ReceivedResponse:
        response = await connection.exchange("GET", path, fields, bytes_max=bytes_max)
        self._connections.put_back(tenant, server, connection)
        return response

    async def _send(
        self, call: ApiCall, registration: Registration, target: str, headers: list[HeaderField]
    ) -> HttpClientConnection:
        """The connection on which the response's head has arrived."""
        server, request = registration.server, call.request
        with translated():
            # A body that is passed on cannot be sent twice.
            idle = self._connections.take_idle(call.tenant, server) if request.upload is None else None
            if idle is not None:
                try:
                    return await self._exchange(request, idle, target, headers)
                except RequestNotSent:
                    pass
                except ConnectionError:
                    # The server has closed the idle connection; it may have read a request before that.
                    if request.method not in _REPEATABLE:
                        raise
            connection = await self._connections.open(call.tenant, server)
            return await self._exchange(request, connection, target, headers)

    async def _exchange(
        self, request: HttpRequest, connection: HttpClientConnection, target: str, headers: list[HeaderField]
    ) -> HttpClientConnection:
        connection.begin(request.method, target, headers, request.body)
        if request.upload is not None:
            BodySender(request.upload, connection)
        try:
            await connection.response()
        except BaseException:
            connection.abort()
            raise
        return connection

    def _response(
        self,
        call: ApiCall,
        registration: Registration,
        connection: HttpClientConnection,
        done: Callable[[], None],
    ) -> HttpResponse:
        status, is_upgrade = connection.status, connection.status == 101
        if is_upgrade and not proxyheaders.asks_upgrade(call.request):
            connection.abort()
            raise unreached("the server switched protocols without an upgrade request")
        headers = proxyheaders.answer_headers(connection.fields, is_upgrade)
        if is_upgrade:
            return HttpResponse(101, StreamRelay(connection, done), b"", headers)
        ended = self._deadline(call, registration, connection, done)
        kind = connection.headers.get("content-type", "").encode("latin-1") or _OCTETS
        length = proxyheaders.length_of(connection.headers)
        if call.request.method == "HEAD" or status in _BODILESS:
            ended(connection)
            response = HttpResponse(status, b"", kind, headers)
            response.length = -1 if length is None else length
            return response
        # Processes of ring0 read whole responses, which a tenant's server must not make arbitrarily long.
        is_bounded = call.identity.is_system and call.tenant != SYSTEM and call.verb != "watch"
        bytes_max = RING0_RESPONSE_BYTES_MAX if is_bounded else None
        response = HttpResponse(status, BodyRelay(connection, _nothing, ended, bytes_max), kind, headers)
        response.length = length
        return response

    def _deadline(
        self,
        call: ApiCall,
        registration: Registration,
        connection: HttpClientConnection,
        done: Callable[[], None],
    ) -> Callable[[HttpClientConnection], None]:
        """Aborts the connection when its time is over. Call the result when the response has ended."""
        seconds = WATCH_SECONDS_MAX if call.verb == "watch" else REQUEST_SECONDS_MAX
        timer = asyncio.get_running_loop().call_later(seconds, connection.abort)
        upload = call.request.upload

        def ended(connection: HttpClientConnection) -> None:
            timer.cancel()
            if upload is not None and not upload.is_complete:
                connection.abort()  # The rest of the body would be taken for the next request.
            else:
                self._connections.put_back(call.tenant, registration.server, connection)
            done()

        return ended


def _headers(
    request: HttpRequest, registration: Registration, identity: Identity, tenant: TenantId
) -> list[HeaderField]:
    forwarded = proxyheaders.forwarded_headers(request)
    forwarded["host"] = f"{registration.server.name}:{registration.server.port}"
    return [*forwarded.items(), *identity_headers(identity, tenant)]


def _nothing() -> None:
    pass
