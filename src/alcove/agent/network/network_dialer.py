"""Connections into networks: sockets in the network namespace of the network's gateway on this node."""

import asyncio
import os
import socket

from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.namespaces import inside
from alcove.dataplane.node_dataplane import DataPlane

INNER_DEVICE, OUTER_DEVICE = b"net", b"up"
"""A gateway's devices: in its network, and to addresses outside, where the gateway's rules apply."""


async def connect_loopback(namespace: str, port: int) -> socket.socket:
    """Connects to 127.0.0.1 in the namespace at that path (empty for the host's). Raises OSError."""
    if namespace:
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with inside(descriptor):
                sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        finally:
            os.close(descriptor)
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return sock


async def connect_node(address: str, port: int) -> socket.socket:
    """Connects from the host's network namespace. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


class NetworkDialer:
    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane

    async def connect(
        self, vni: int, source: str, address: str, port: int, device: bytes = b""
    ) -> socket.socket:
        """`source` is one of the gateway's addresses, or empty for that of the `device`. Raises OSError."""
        sock = self._open_socket(vni, socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            if device:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
            if source:
                sock.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def datagrams(self, vni: int, source: str, address: str, port: int) -> socket.socket:
        """A UDP socket that is connected, and does not block. `source` is one of the gateway's addresses. Raises
        OSError."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = self._open_socket(vni, family, socket.SOCK_DGRAM)
        try:
            sock.bind((source, 0))
            sock.connect((address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _open_socket(self, vni: int, family: int, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Opens a socket in the network's gateway. Raises OSError."""
        try:
            namespace = self._plane.gateways.open(vni)
        except DataPlaneError as error:
            raise ConnectionRefusedError(str(error)) from error
        try:
            with inside(namespace):
                return socket.socket(family, kind | socket.SOCK_NONBLOCK)
        finally:
            os.close(namespace)
