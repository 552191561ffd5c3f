"""Forwards requests for aggregated APIs to their extension servers (`forwarding`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import quote

from alcove.api.errors import ServiceUnavailable
from alcove.api.ids import TenantId
from alcove.apiserver.aggregation.connections import ExtensionConnections
from alcove.apiserver.aggregation.front_proxy import HeaderField, identity_headers
from alcove.apiserver.aggregation.registrations import ExtensionServer, Registration, Registrations
from alcove.apiserver.call import ApiCall
from alcove.apiserver.forwarding import RequestForwarder, translated
from alcove.apiserver.identity import Identity
from alcove.apiserver.paths import RequestTarget
from alcove.apiserver.streams import proxyheaders
from alcove.apiserver.streams.connect import StreamLimits
from alcove.apiserver.streams.relays import BodyBounds
from alcove.http.client import HttpClientConnection, ReceivedResponse
from alcove.http.group_counts import GroupCounts
from alcove.http.messages import HttpRequest, HttpResponse

PER_TENANT_MAX = 128
"""Requests to one tenant's extension servers that are open at the same time; one more is answered with 429."""
TOTAL_MAX = 2_048
"""Requests to all extension servers; one more is answered with 429. A tenant may have at most as many as are free."""
RING0_RESPONSE_BYTES_MAX = 4 << 20
"""Size of a tenant's extension server's response to a caller of ring0; a longer one is cut off."""
RING0_RESPONSE_VALUES_MAX = 200_000
"""Values in such a response, about: so many take ring0's controllers some 50 ms to parse, during which they do nothing
else. One with more is cut off."""
_SAFE = "/*:@!$&'()+,;=~-._"


class ExtensionProxy:
    def __init__(
        self,
        registrations: Registrations,
        connections: ExtensionConnections,
        release: Callable[[ApiCall], None],
        counts: GroupCounts | None = None,
    ) -> None:
        """`release` releases a call's flow control seats. `counts`: the requests of each tenant."""
        self._registrations = registrations
        self._connections = connections
        self.counting = StreamLimits(PER_TENANT_MAX, TOTAL_MAX, counts)
        bounds = BodyBounds(RING0_RESPONSE_BYTES_MAX, RING0_RESPONSE_VALUES_MAX)
        self._forwarder = RequestForwarder(connections, release, self.counting, bounds)

    def find(self, call: ApiCall) -> Registration | None:
        """The registration of the group version that the request is for; None if this server serves it."""
        return self.find_target(call.tenant, call.target)

    def find_target(self, tenant: TenantId, target: RequestTarget) -> Registration | None:
        return self._registrations.find(tenant, target)

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
        return await self._forwarder.forward(call, registration.server, target, headers)

    async def fetch(
        self,
        tenant: TenantId,
        registration: Registration,
        path: str,
        identity: Identity,
        bytes_max: int,
        count_bytes: Callable[[int], None],
    ) -> ReceivedResponse:
        """A GET by this server itself. `count_bytes` is called with the bytes that are received. Raises ApiError."""
        fields = [
            ("Host", f"{registration.server.name}:{registration.server.port}"),
            ("Accept", "application/json"),
            ("User-Agent", "alcove"),
            *identity_headers(identity, tenant),
        ]
        done = self.counting.enter(tenant)
        try:
            with translated():
                server = registration.server
                return await self._get(tenant, server, path, fields, bytes_max, count_bytes)
        finally:
            done()

    async def _get(
        self,
        tenant: TenantId,
        server: ExtensionServer,
        path: str,
        fields: list[HeaderField],
        bytes_max: int,
        count_bytes: Callable[[int], None],
    ) -> ReceivedResponse:
        async def exchange(connection: HttpClientConnection) -> ReceivedResponse:
            response = await connection.exchange(
                "GET", path, fields, bytes_max=bytes_max, count_bytes=count_bytes
            )
            self._connections.put_back(tenant, server, connection)
            return response

        connection = self._connections.take_idle(tenant, server)
        if connection is not None:
            # The server may have closed the idle connection just now.
            with suppress(ConnectionError):
                return await exchange(connection)
        return await exchange(await self._connections.open(tenant, server))


def _headers(
    request: HttpRequest, registration: Registration, identity: Identity, tenant: TenantId
) -> list[HeaderField]:
    forwarded = proxyheaders.forwarded_headers(request)
    forwarded["host"] = f"{registration.server.name}:{registration.server.port}"
    return [*forwarded.items(), *identity_headers(identity, tenant)]
