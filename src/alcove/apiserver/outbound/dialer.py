"""TCP connections on a tenant's behalf from the API server's network: to public addresses and to networks that ring0
allows, for ring0 to any address."""

import asyncio
import socket

from alcove.api import destinations
from alcove.api.destinations import Address, Network
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.node_addresses import NodeAddresses
from alcove.apiserver.outbound.resolver import ResolvedEndpoint
from alcove.http.byte_streams import ByteStream, SocketStream

OUT_OF_BOUNDS = "the host is unknown, or webhooks of this tenant are not allowed there"
"""The same message for an unknown name and for an address that is not allowed, so that it reveals nothing."""


class DirectDialer:
    def __init__(self, nodes: NodeAddresses, allowed: tuple[Network, ...] = ()) -> None:
        """`allowed`: networks where ring0's configuration allows tenants' webhooks, even if they are not
        public."""
        self._nodes = nodes
        self._allowed = allowed

    def is_exempt(self, tenant: TenantId, address: Address) -> bool:
        """Whether the API server connects to an address even if it is not public."""
        return tenant == SYSTEM or destinations.is_allowed(address, self._allowed)

    async def dial(self, tenant: TenantId, endpoint: ResolvedEndpoint) -> ByteStream:
        """A connection to the first address that accepts one. Raises WebhookError, OSError."""
        failures: list[OSError] = []
        for address in self._permitted(tenant, endpoint):
            try:
                return SocketStream(await self._connect(tenant, address, endpoint.port))
            except OSError as error:
                failures.append(error)
        raise failures[0]

    def _permitted(self, tenant: TenantId, endpoint: ResolvedEndpoint) -> list[Address]:
        if tenant == SYSTEM:
            targets = list(endpoint.addresses)
        else:
            nodes = self._nodes.current()
            targets = [
                each for each in endpoint.addresses if destinations.permitted(each, self._allowed, nodes)
            ]
        if not targets:
            raise WebhookError(OUT_OF_BOUNDS)
        return targets

    async def _connect(self, tenant: TenantId, address: Address, port: int) -> socket.socket:
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._check_not_self(tenant, sock, address)
        except BaseException:
            sock.close()
            raise
        return sock

    def _check_not_self(self, tenant: TenantId, sock: socket.socket, address: Address) -> None:
        """Rejects this machine's public address, which may not be in a Node: then both ends have the same
        address."""
        if not self.is_exempt(tenant, address) and sock.getpeername()[0] == sock.getsockname()[0]:
            raise WebhookError(OUT_OF_BOUNDS)
