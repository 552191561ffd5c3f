"""Connections from a network's gateway: sockets of the node agent that live in the network's own namespace."""

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
"""The gateway's link to its network. Bound to it, a socket reaches nothing else, whatever a tenant's objects say."""


class GatewaySource(Struct, frozen=True):
    """Where connections of a network begin: its number, and the addresses that only this node's gateway has."""

    vni: int
    source: str = ""
    source6: str = ""

    def source_for(self, address: str) -> str:
        """Of the same family. Raises OSError: from an address that all nodes share, no answer would find back."""
        found = self.source6 if ":" in address else self.source
        if not found:
            raise ConnectionRefusedError(f"the gateway has no address of its own to reach {address} from")
        return found


def gateway_dial(
    open_gateway: Callable[[int], int], exit_of: Callable[[TenantKey, str], GatewaySource | None]
) -> Dial:
    """`open_gateway` is `Plane.gateways.open`; `exit_of` finds a tenant's network on this node."""

    async def dial(tenant_key: TenantKey, network: str, address: str, port: int) -> socket.socket:
        found = exit_of(tenant_key, network)
        if found is None:
            raise ConnectionRefusedError(f"network {network} of {tenant_key.tenant} is not on this node")
        source = found.source_for(address)
        sock = _socket(open_gateway, found.vni, socket.AF_INET6 if ":" in address else socket.AF_INET)
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
            return socket.socket(
                socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            )
    finally:
        os.close(namespace)
