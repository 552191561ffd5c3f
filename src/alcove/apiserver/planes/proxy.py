"""Forwards a dedicated tenant's requests to its own API server: `/tenants/T` of the home plane is an address that stays.

The plane is told who calls by impersonation, and decides what they may do. It never gets credentials: neither the
caller's, nor a key of this server, whose client certificate it verifies.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator

from alcove.api.errors import BadRequest
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import API_SERVER_USER
from alcove.api.resources import TENANT_USAGES
from alcove.apiserver.auth.certificates import CLIENT_LIFETIME, CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.apiserver.call import ApiCall
from alcove.apiserver.forwarding import HeaderField, RequestForwarder, translated
from alcove.apiserver.identity import MASTERS, Identity
from alcove.apiserver.outbound.authorities import in_memory
from alcove.apiserver.planes.plane_servers import PlaneServer, PlaneServers
from alcove.apiserver.streams import proxyheaders
from alcove.apiserver.streams.connect import StreamLimits
from alcove.http.client import HttpClientConnection
from alcove.http.group_counts import GroupCounts
from alcove.http.messages import HttpResponse
from alcove.http.pool import IdleConnections, PoolLimits

PER_TENANT_MAX = 512
"""Requests and watches that are forwarded for one dedicated tenant; one more is answered with 429."""
TOTAL_MAX = 4_096
"""Of all dedicated tenants; one more is answered with 429. A tenant may have at most as many as are free."""
RING0_RESPONSE_BYTES_MAX = 256 << 20
"""Size of a plane's response to a caller of ring0; a longer one is cut off."""
CONNECT_SECONDS_MAX = 5.0
CONTEXTS_KEPT_MAX = 256
"""TLS contexts of planes that are kept; that of another one is made anew when it is called."""
POOL = PoolLimits(per_target_max=16, total_max=512, per_owner_max=16, idle_seconds_max=30.0)
_SHUTDOWN_SECONDS = 5.0
_Key = tuple[TenantId, PlaneServer]


class PlaneConnections:
    def __init__(self, authority: CertificateAuthority, clock: Callable[[], float]) -> None:
        self._authority = authority
        self._clock = clock
        self._contexts: dict[TenantId, tuple[PlaneServer, float, ssl.SSLContext]] = {}
        self._idle: IdleConnections[_Key, HttpClientConnection] = IdleConnections(POOL, lambda key: key[0])

    def close(self) -> None:
        self._idle.close()

    def take_idle(self, tenant: TenantId, server: PlaneServer) -> HttpClientConnection | None:
        return self._idle.take((tenant, server))

    def put_back(self, tenant: TenantId, server: PlaneServer, connection: HttpClientConnection) -> None:
        connection.resume()  # It is paused after a response without a body.
        self._idle.put((tenant, server), connection)

    async def open(self, tenant: TenantId, server: PlaneServer) -> HttpClientConnection:
        """Raises ServiceUnavailable."""
        with translated():
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                _, connection = await asyncio.get_running_loop().create_connection(
                    HttpClientConnection,
                    server.host,
                    server.port,
                    ssl=self._context(tenant, server),
                    server_hostname=server.host,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
                return connection

    def _context(self, tenant: TenantId, server: PlaneServer) -> ssl.SSLContext:
        now = self._clock()
        kept = self._contexts.get(tenant)
        if kept is not None and kept[0] == server and now < kept[1]:
            return kept[2]
        issued = self._authority.client(Subject(SYSTEM, API_SERVER_USER, (MASTERS,)), now)
        context = ssl.create_default_context(cadata=server.authority)
        with in_memory(issued.certificate_pem + issued.key_pem) as path:
            context.load_cert_chain(path)
        self._contexts.pop(tenant, None)
        if len(self._contexts) >= CONTEXTS_KEPT_MAX:
            del self._contexts[next(iter(self._contexts))]  # The oldest, perhaps of a tenant that is gone.
        self._contexts[tenant] = (server, now + CLIENT_LIFETIME.total_seconds() * 2 / 3, context)
        return context


class PlaneProxy:
    def __init__(
        self,
        servers: PlaneServers,
        connections: PlaneConnections,
        release: Callable[[ApiCall], None],
        counts: GroupCounts | None = None,
    ) -> None:
        """`release` releases a call's flow control seats. `counts`: the requests of each tenant."""
        self._servers = servers
        limits = StreamLimits(PER_TENANT_MAX, TOTAL_MAX, counts)
        self._forwarder = RequestForwarder(connections, release, limits, RING0_RESPONSE_BYTES_MAX)

    def forward(self, call: ApiCall) -> Awaitable[HttpResponse] | None:
        """The plane's response; None if this server serves the tenant. Raises ApiError."""
        server = self._servers.of(call.tenant)
        if server is None or _is_of_home(call):
            return None
        request = call.request
        headers = proxyheaders.forwarded_headers(request)
        headers["host"] = f"{server.host}:{server.port}"
        path = request.path if call.target.tenant else f"/tenants/{call.tenant}{request.path}"
        target = f"{path}?{request.raw_query}" if request.raw_query else path
        fields = [*headers.items(), *impersonation(call.identity)]
        return self._forwarder.forward(call, server, target, fields)


def _is_of_home(call: ApiCall) -> bool:
    """Whether ring0 asks for what it knows of the tenant itself: the plane has no records of what was used."""
    return call.identity.is_system and call.target.resource == TENANT_USAGES.resource and call.verb == "list"


def impersonation(identity: Identity) -> Iterator[HeaderField]:
    """The headers that say who calls. Raises BadRequest for names that no header can have."""
    yield "Impersonate-User", _value(identity.user)
    if not identity.is_system:
        yield "Impersonate-Tenant", identity.tenant
    if identity.uid:
        yield "Impersonate-Uid", _value(identity.uid)
    for group in identity.groups:
        yield "Impersonate-Group", _value(group)


def _value(text: str) -> str:
    """As bytes of UTF-8 in a header that is written as Latin-1."""
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise BadRequest("names with control characters cannot be sent to a dedicated API server")
    return text.encode("utf-8", "surrogateescape").decode("latin-1")
