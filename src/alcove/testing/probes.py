"""Connectivity probes between network namespaces, with sockets that this process opens in them.

Each function returns True or False within `timeout`; no socket is left open.
"""

import os
import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

from alcove.dataplane.namespaces import inside
from alcove.testing.packets import checksum

TIMEOUT = 30.0
"""Timeout of checks that should succeed: a lost first packet is sent again after one second and after three, and the machine
may be busy. Others use shorter timeouts."""
IMPATIENT = 0.04


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6


def opened(namespace: int, family: int, kind: int, protocol: int = 0) -> socket.socket:
    with inside(namespace):
        return socket.socket(family, kind, protocol)


@contextmanager
def tcp_server(namespace: int, address: str, port: int) -> Iterator[socket.socket]:
    server = opened(namespace, family_of(address), socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen(64)
        yield server
    finally:
        server.close()


@contextmanager
def udp_socket(namespace: int, address: str, port: int = 0) -> Iterator[socket.socket]:
    made = opened(namespace, family_of(address), socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.settimeout(TIMEOUT)
        yield made
    finally:
        made.close()


def connect(
    namespace: int, target: str, port: int, *, timeout: float = TIMEOUT, source_port: int = 0
) -> socket.socket | None:
    """A connected socket, or None."""
    client = opened(namespace, family_of(target), socket.SOCK_STREAM)
    client.settimeout(timeout)
    try:
        if source_port:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.bind(("", source_port))
        client.connect((target, port))
    except OSError:
        client.close()
        return None
    return client


def tcp_talks(
    source: int, target: str, port: int, server: socket.socket, *, timeout: float = TIMEOUT
) -> bool:
    """Connects, and sends data in both directions."""
    client = connect(source, target, port, timeout=timeout)
    if client is None:
        return False
    with client:
        server.settimeout(timeout)
        try:
            accepted, _ = server.accept()
        except TimeoutError:
            return False
        with accepted:
            accepted.settimeout(timeout)
            client.sendall(b"ping")
            if accepted.recv(16) != b"ping":
                return False
            accepted.sendall(b"pong")
            return client.recv(16) == b"pong"


def udp_talks(
    source: int, target: str, port: int, server: socket.socket, *, timeout: float = TIMEOUT
) -> bool:
    """The server answers with the client's address; the client's socket is connected, so it accepts no other
    peer."""
    client = opened(source, family_of(target), socket.SOCK_DGRAM)
    word = os.urandom(8)
    with client:
        client.settimeout(timeout)
        server.settimeout(timeout)
        try:
            client.connect((target, port))
            client.send(word)
            while True:
                heard, whom = server.recvfrom(64)
                if heard == word:
                    break
            server.sendto(word[::-1], whom)
            return client.recv(64) == word[::-1]
        except OSError:
            return False


def ping(source: int, target: str, *, timeout: float = TIMEOUT, size: int = 16) -> bool:
    family = family_of(target)
    four = family == socket.AF_INET
    protocol = socket.IPPROTO_ICMP if four else socket.IPPROTO_ICMPV6
    identity = int.from_bytes(os.urandom(2), "big")
    body = struct.pack("!BBHHH", 8 if four else 128, 0, 0, identity, 1) + b"a" * size
    if four:
        body = body[:2] + checksum(body).to_bytes(2, "big") + body[4:]
    asker = opened(source, family, socket.SOCK_RAW, protocol)
    with asker, selectors.DefaultSelector() as waiting:
        waiting.register(asker, selectors.EVENT_READ)
        try:
            asker.sendto(body, (target, 0))
        except OSError:
            return False
        while waiting.select(timeout):
            answer = asker.recv(65535)
            answer = answer[20:] if four else answer
            if answer[0] == (0 if four else 129) and answer[4:6] == body[4:6]:
                return True
    return False
