"""Forwards a dedicated tenant's requests to its own API server: `/tenants/T` of the home plane is an address that stays.

The server of a tenant that is asleep is stopped. A request starts it (`Tenant.status.controlPlane.lastRequestTime`) and waits
until it runs.

What a tenant has used is recorded at home. Its plane decides whether a user may see that, by its own answer to the same request.

The plane is told who calls by impersonation, and decides what they may do. It never gets credentials: neither the
caller's, nor a key of this server, whose client certificate it verifies.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from alcove.api.errors import BadRequest, Forbidden, ServiceUnavailable
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import API_SERVER_USER
from alcove.api.resources import TENANT_USAGES
from alcove.apiserver.auth.certificates import CLIENT_LIFETIME, CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.apiserver.call import ApiCall
from alcove.apiserver.forwarding import HeaderField, RequestForwarder, translated
from alcove.apiserver.identity import MASTERS, Identity
from alcove.apiserver.outbound.authorities import in_memory
from alcove.apiserver.planes.plane_servers import PlaneServer, PlaneServers, ServerAddress
from alcove.apiserver.streams import proxyheaders
from alcove.apiserver.streams.connect import StreamLimits
from alcove.apiserver.streams.relays import BodyBounds, BodyRelay
from alcove.http.byte_streams import TransportStream
from alcove.http.client import HttpClientConnection
from alcove.http.errors import HttpError
from alcove.http.group_counts import GroupCounts
from alcove.http.handshakes import Handshakes
from alcove.http.messages import HttpResponse
from alcove.http.pool import IdleConnections, PoolLimits
from alcove.http.tls_transport import TlsTransport
from alcove.http.turns import ReadingTurns

PER_TENANT_MAX = 512
"""Requests and watches that are forwarded for one dedicated tenant; one more is answered with 429."""
TOTAL_MAX = 4_096
"""Of all dedicated tenants; one more is answered with 429. A tenant may have at most as many as are free."""
RING0_RESPONSE_BYTES_MAX = 256 << 20
"""Size of a plane's response to a caller of ring0; a longer one is cut off."""
WAITING_PER_TENANT_MAX = 64
"""Requests that wait for one tenant's API server to start; one more is answered with 429."""
WAITING_TOTAL_MAX = 1_024
"""Of all dedicated tenants; one more is answered with 429. A tenant may have at most as many as are free."""
WAKE_SECONDS_MAX = 60.0
CONNECT_SECONDS_MAX = 5.0
NEXT_SECONDS = 2.0
"""How long one of several API servers may take to accept a connection before the next one is tried."""
CONTEXTS_KEPT_MAX = 256
"""TLS contexts of planes that are kept; that of another one is made anew when it is called."""
POOL = PoolLimits(per_target_max=16, total_max=512, per_owner_max=16, idle_seconds_max=30.0)
_Key = tuple[TenantId, PlaneServer]


class PlaneConnections:
    def __init__(
        self,
        authority: CertificateAuthority,
        clock: Callable[[], float],
        reading: ReadingTurns | None = None,
    ) -> None:
        """`reading` lets planes have their part of the time for received data."""
        self._handshakes = Handshakes()
        self._reading = reading or ReadingTurns()
        self._authority = authority
        self._clock = clock
        self._turn = 0
        self._contexts: dict[TenantId, tuple[PlaneServer, float, ssl.SSLContext]] = {}
        self._idle: IdleConnections[_Key, HttpClientConnection] = IdleConnections(POOL, lambda key: key[0])

    def close(self) -> None:
        self._idle.close()
        self._handshakes.close()

    def take_idle(self, tenant: TenantId, server: PlaneServer) -> HttpClientConnection | None:
        return self._idle.take((tenant, server))

    def put_back(self, tenant: TenantId, server: PlaneServer, connection: HttpClientConnection) -> None:
        connection.resume()  # It is paused after a response without a body.
        self._idle.put((tenant, server), connection)

    async def open(self, tenant: TenantId, server: PlaneServer) -> HttpClientConnection:
        """Raises ServiceUnavailable. Of several servers each gets its share of connections; one that does not accept
        any is passed over."""
        self._turn += 1
        first = self._turn % len(server.addresses)
        *others, last = (*server.addresses[first:], *server.addresses[:first])
        for address in others:
            with contextlib.suppress(OSError, HttpError):  # A TimeoutError is an OSError.
                async with asyncio.timeout(NEXT_SECONDS):
                    return await self._open(tenant, server, address)
        with translated():
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                return await self._open(tenant, server, last)

    async def _open(
        self, tenant: TenantId, server: PlaneServer, address: ServerAddress
    ) -> HttpClientConnection:
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(TransportStream, address.host, address.port)
        connection, context = HttpClientConnection(), self._context(tenant, server)
        try:
            session = await self._handshakes.perform(tenant, stream, lambda: context, address.host)
            schedule = partial(self._reading.read, tenant)
            await stream.hand_over(TlsTransport(session, connection, schedule=schedule))
        except BaseException:
            stream.abort()
            raise
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
        take: Callable[[ApiCall], Awaitable[None] | None],
        counts: GroupCounts | None = None,
        note: Callable[[TenantId, float], None] = lambda _tenant, _now: None,
    ) -> None:
        """`release` releases a call's flow control seats, `take` takes them again. `counts`: the requests of each tenant.
        `note` is called for each request to a tenant that is asleep."""
        self._servers = servers
        self._take = take
        self._note = note
        self._release = release
        self._waiting = StreamLimits(WAITING_PER_TENANT_MAX, WAITING_TOTAL_MAX)
        limits = StreamLimits(PER_TENANT_MAX, TOTAL_MAX, counts)
        self._forwarder = RequestForwarder(
            connections, release, limits, BodyBounds(RING0_RESPONSE_BYTES_MAX, None)
        )

    def serves(self, tenant: TenantId) -> bool:
        """Whether this server serves the tenant: `forward` has nothing to do."""
        return self._servers.of(tenant) is None and not self._servers.is_foreign(tenant)

    def forward(self, call: ApiCall) -> Awaitable[HttpResponse | None] | None:
        """The plane's response; None if this server serves the tenant. Raises ApiError."""
        server = self._servers.of(call.tenant)
        if self._servers.is_foreign(call.tenant) and not _is_of_home(call):
            raise Forbidden(
                f'the objects of tenant "{call.tenant}" are on a foreign plane, not on this server'
            )
        if server is None or _is_of_home(call):
            return None
        if self._servers.is_asleep(call.tenant):
            self._note(call.tenant, call.started)
        is_stopped = self._servers.is_stopped(call.tenant)
        answer = self._forward_when_running(call) if is_stopped else self._forward(call, server)
        return self._list_usages(call, answer) if _lists_usages(call) else answer

    async def _list_usages(self, call: ApiCall, answer: Awaitable[HttpResponse]) -> HttpResponse | None:
        """None, for the answer of this server, if the plane has allowed the request."""
        decided = await answer
        if decided.status != 200:
            return decided
        if isinstance(decided.body, BodyRelay):
            decided.body.stop()
        call.is_allowed_by_plane = True
        waiting = self._take(call)
        if waiting is not None:
            await waiting
        return None

    async def _forward_when_running(self, call: ApiCall) -> HttpResponse:
        done = self._waiting.enter(call.tenant)
        self._release(call)
        try:
            async with asyncio.timeout(WAKE_SECONDS_MAX):
                server = await self._servers.running(call.tenant)
        except TimeoutError as error:
            message = f'the API server of tenant "{call.tenant}" was asleep, and has not started yet; try again later'
            raise ServiceUnavailable(message) from error
        finally:
            done()
        if server is None:
            raise ServiceUnavailable(f'tenant "{call.tenant}" has no API server any more')
        return await self._forward(call, server)

    def _forward(self, call: ApiCall, server: PlaneServer) -> Awaitable[HttpResponse]:
        request = call.request
        headers = proxyheaders.forwarded_headers(request)
        headers["host"] = f"{server.addresses[0].host}:{server.addresses[0].port}"
        path = request.path if call.target.tenant else f"/tenants/{call.tenant}{request.path}"
        target = f"{path}?{request.raw_query}" if request.raw_query else path
        fields = [*headers.items(), *impersonation(call.identity)]
        return self._forwarder.forward(call, server, target, fields)


def _is_of_home(call: ApiCall) -> bool:
    """Whether ring0 asks for what it knows of the tenant itself: the plane has no records of what was used."""
    return call.identity.is_system and _lists_usages(call)


def _lists_usages(call: ApiCall) -> bool:
    target = call.target
    is_usages = (target.group, target.resource) == (TENANT_USAGES.group, TENANT_USAGES.resource)
    return is_usages and call.verb == "list"


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
