"""Opens the connections of webhook calls: to hosts directly, to services through the nodes of their pods."""

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.apiserver.outbound.dialer import DirectDialer
from alcove.apiserver.outbound.resolver import OutboundResolver
from alcove.apiserver.outbound.tunnels import ServiceTunnels
from alcove.http.byte_streams import ByteStream


class WebhookTarget(Struct, frozen=True):
    """The target of a client configuration. If `service` is empty, `host` is the URL's."""

    host: str
    port: int
    namespace: str = ""
    service: str = ""


class WebhookDialer:
    def __init__(self, resolver: OutboundResolver, direct: DirectDialer, services: ServiceTunnels) -> None:
        self._resolver = resolver
        self._direct = direct
        self._services = services

    def close(self) -> None:
        self._resolver.close()

    async def dial(self, tenant: TenantId, target: WebhookTarget) -> ByteStream:
        """A connection to the webhook. Raises WebhookError, OSError."""
        if not target.service:
            return await self._dial_host(tenant, target.host, target.port)
        service = self._resolver.service(tenant, target.namespace, target.service, target.port)
        if service.external_name:
            return await self._dial_host(tenant, service.external_name, target.port)
        return await self._services.dial(tenant, target.namespace, service)

    async def _dial_host(self, tenant: TenantId, host: str, port: int) -> ByteStream:
        return await self._direct.dial(tenant, await self._resolver.host(tenant, host, port))
