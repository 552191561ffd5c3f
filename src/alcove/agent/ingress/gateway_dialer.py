"""Connections from a network's gateway: sockets of the agent in the gateway's network namespace."""

import asyncio
import os
import socket
from collections.abc import Callable

from msgspec import Struct

from alcove.agent.ingress.upstream import Dial
from alcove.client.keys import TenantKey
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.namespaces import inside

_DEVICE = b"net"
"""The gateway's device in its network. Sockets are bound to it, so that a tenant's objects cannot direct them
elsewhere."""


class GatewaySource(Struct, frozen=True):
    """The source of connections into a network: its VNI, and the addresses that only this node's gateway
    has."""

    vni: int
    source: str = ""
    source6: str = ""

    def source_for(self, address: str) -> str:
        """The source address of the same family. Raises OSError if there is none: replies to the gateway
        address that all nodes share would not return here."""
        source = self.source6 if ":" in address else self.source
        if not source:
            raise ConnectionRefusedError(
                f"the gateway has no node-specific source address to reach {address}"
            )
        return source


def gateway_dial(
    open_gateway: Callable[[int], int], find_source: Callable[[TenantKey, str], GatewaySource | None]
) -> Dial:
    """`open_gateway` is `DataPlane.gateways.open`; `find_source` finds a tenant's network on this node."""

    async def dial(tenant_key: TenantKey, network: str, address: str, port: int) -> socket.socket:
        gateway = find_source(tenant_key, network)
        if gateway is None:
            raise ConnectionRefusedError(f"network {network} of {tenant_key.tenant} is not on this node")
        source = gateway.source_for(address)
        sock = _socket(open_gateway, gateway.vni, socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _DEVICE)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    return dial


def _socket(open_gateway: Callable[[int], int], vni: int, family: int) -> socket.socket:
    try:
        namespace = open_gateway(vni)
    except DataPlaneError as error:
        raise ConnectionRefusedError(str(error)) from error
    try:
        with inside(namespace):
            return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    finally:
        os.close(namespace)
