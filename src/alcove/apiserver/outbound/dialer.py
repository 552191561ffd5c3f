"""A TCP connection on a tenant's behalf, to where that tenant may go.

`Dialer` is what the rest needs of a network. `DirectDialer` connects from the API server's own network:
right for public addresses and for ring0. The pods behind a tenant's services are in the tenant's own
networks, which cannot be reached from here: a dialer that goes through those networks' gateways takes
its place where there are such networks.
"""

import asyncio
import socket
from typing import Protocol

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.apiserver.outbound import addresses
from alcove.apiserver.outbound.addresses import Address, Network
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.resolver import OutboundResolver, ResolvedEndpoint
from alcove.apiserver.reader import CacheReader

NODES = GroupResource("", "nodes")
OUT_OF_BOUNDS = "the host is unknown, or is none that webhooks of this tenant may be called at"
"""The same words whether a name is unknown or known only to ring0."""


class WebhookTarget(Struct, frozen=True):
    """What a client configuration names. `service` empty: `host` is the URL's."""

    host: str
    port: int
    namespace: str = ""
    service: str = ""


class Dialer(Protocol):
    async def dial(self, tenant: TenantId, target: WebhookTarget) -> socket.socket:
        """A connected socket that does not block. Raises WebhookError, OSError."""
        ...

    def close(self) -> None: ...


class DirectDialer:
    def __init__(self, reader: CacheReader, allowed: tuple[Network, ...] = ()) -> None:
        """`allowed`: networks that ring0 lets tenants' webhooks be in, whatever else is said of them."""
        self._reader = reader
        self._allowed = allowed
        self._names = OutboundResolver(reader)

    def close(self) -> None:
        self._names.close()

    async def dial(self, tenant: TenantId, target: WebhookTarget) -> socket.socket:
        if target.service:
            endpoint = await self._names.service(tenant, target.namespace, target.service, target.port)
        else:
            endpoint = await self._names.host(tenant, target.host, target.port)
        failures: list[OSError] = []
        for address in self._permitted(tenant, endpoint):
            try:
                return await self._connect(tenant, address, endpoint.port)
            except OSError as error:
                failures.append(error)
        raise failures[0]

    def _permitted(self, tenant: TenantId, endpoint: ResolvedEndpoint) -> list[Address]:
        if tenant == SYSTEM:
            found = list(endpoint.addresses)
        else:
            own = self._node_addresses()
            found = [each for each in endpoint.addresses if addresses.permitted(each, self._allowed, own)]
        if not found:
            raise WebhookError(OUT_OF_BOUNDS)
        return found

    def _node_addresses(self) -> set[Address]:
        texts = [
            each.get("address", "")
            for node in self._reader.list(SYSTEM, NODES)
            for each in objects.get(node, "status", "addresses", default=())
        ]
        return {address for text in texts if (address := addresses.parse(text)) is not None}

    async def _connect(self, tenant: TenantId, address: Address, port: int) -> socket.socket:
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await asyncio.get_running_loop().sock_connect(made, (str(address), port))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._check_not_ourselves(tenant, made, address)
        except BaseException:
            made.close()
            raise
        return made

    def _check_not_ourselves(self, tenant: TenantId, made: socket.socket, address: Address) -> None:
        """This machine's own public address is no node's, perhaps; but who connects to it is both ends."""
        is_allowed = tenant == SYSTEM or addresses.is_allowed(address, self._allowed)
        if not is_allowed and made.getpeername()[0] == made.getsockname()[0]:
            raise WebhookError(OUT_OF_BOUNDS)
