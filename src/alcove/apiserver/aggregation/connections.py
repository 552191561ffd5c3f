"""Connections to extension servers, through the nodes of their pods, with TLS to the server itself.

Idle connections are reused. Tenants share neither connections nor the credentials that they are opened with.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import lru_cache, partial

from alcove.api.ids import TenantId
from alcove.apiserver.aggregation.front_proxy import FrontProxy
from alcove.apiserver.aggregation.registrations import ExtensionServer
from alcove.apiserver.auth.certificates import IssuedCertificate
from alcove.apiserver.forwarding import translated
from alcove.apiserver.outbound.authorities import in_memory, load_bundle
from alcove.apiserver.outbound.webhook_dialer import WebhookDialer, WebhookTarget
from alcove.http.client import HttpClientConnection
from alcove.http.handshakes import Handshakes
from alcove.http.pool import IdleConnections, PoolLimits
from alcove.http.tls_transport import TlsTransport
from alcove.http.turns import ReadingTurns

CONNECT_SECONDS_MAX = 10.0
"""From the choice of a pod to the end of the TLS handshake."""
CONTEXTS_MAX = 64
"""TLS contexts of all tenants' extension servers that are kept; another one is made for the next connection."""
IDLE_PER_TENANT_MAX = 16
"""Idle connections to one tenant's extension servers; what is over it is closed, and the next request connects."""
POOL = PoolLimits(per_target_max=8, total_max=256, per_owner_max=IDLE_PER_TENANT_MAX, idle_seconds_max=30.0)

_Key = tuple[TenantId, ExtensionServer]


def _tenant_of(key: _Key) -> TenantId:
    return key[0]


class ExtensionConnections:
    def __init__(
        self, dialer: WebhookDialer, front_proxy: FrontProxy, reading: ReadingTurns | None = None
    ) -> None:
        """`reading` lets tenants' servers have their part of the time for received data."""
        self._dialer = dialer
        self._reading = reading or ReadingTurns()
        self._front_proxy = front_proxy
        self._handshakes = Handshakes()
        self._idle: IdleConnections[_Key, HttpClientConnection] = IdleConnections(POOL, _tenant_of)

    def close(self) -> None:
        self._idle.close()
        self._handshakes.close()

    def take_idle(self, tenant: TenantId, server: ExtensionServer) -> HttpClientConnection | None:
        return self._idle.take((tenant, server))

    def put_back(self, tenant: TenantId, server: ExtensionServer, connection: HttpClientConnection) -> None:
        """Keep a connection whose response is complete; any other is closed."""
        connection.resume()  # It is paused after a response without a body.
        self._idle.put((tenant, server), connection)

    async def open(self, tenant: TenantId, server: ExtensionServer) -> HttpClientConnection:
        """A new connection. Raises ServiceUnavailable."""
        with translated():
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                return await self._open(tenant, server)

    async def _open(self, tenant: TenantId, server: ExtensionServer) -> HttpClientConnection:
        issued = self._front_proxy.credentials(tenant).issued
        target = WebhookTarget(server.name, server.port, server.namespace, server.service)
        stream = await self._dialer.dial(tenant, target)
        connection = HttpClientConnection()
        try:
            make_context = partial(_context, server.authority, server.is_unverified, issued)
            session = await self._handshakes.perform(tenant, stream, make_context, server.name)
            schedule = partial(self._reading.read, tenant)
            await stream.hand_over(TlsTransport(session, connection, schedule=schedule))
        except BaseException:
            stream.abort()
            raise
        return connection


@lru_cache(maxsize=CONTEXTS_MAX)
def _context(authority: str, is_unverified: bool, issued: IssuedCertificate) -> ssl.SSLContext:
    """Called in a thread. Raises WebhookError."""
    if authority or is_unverified:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if is_unverified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority:
        load_bundle(context, authority)
    with in_memory(issued.certificate_pem + issued.key_pem) as path:
        context.load_cert_chain(path)
    return context
