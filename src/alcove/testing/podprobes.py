"""Probes from the network namespaces of a cluster's pods (`nodecluster`): reachability, DNS, and access from
outside."""

import socket
import threading
import time
from contextlib import suppress

from dnslib import RCODE, DNSRecord

from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.probes import TIMEOUT, connect, family_of, opened
from alcove.testing.server import wait_until

TENANTS = ("red", "blue")
"""Two tenants with identical networks."""
WORLD = "203.0.113.5"
"""An external host on the underlay."""


def reaches(pod: AttachedPod, address: str, port: int) -> bool:
    """Whether a TCP connection succeeds."""
    client = connect(pod.namespace, address, port, timeout=0.2)
    if client is not None:
        client.close()
    return client is not None


def asked(pod: AttachedPod, name: str, kind: str = "A", server: str = "") -> list[str]:
    """The answers of the pod's DNS server, or the response code."""
    question = DNSRecord.question(name, kind)
    server = server or pod.attachment.nameservers[0]
    with opened(pod.namespace, family_of(server), socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.5)
        sock.connect((server, 53))
        sock.send(question.pack())
        answer = DNSRecord.parse(sock.recv(4096))
    assert answer.header.id == question.header.id
    return [str(each.rdata) for each in answer.rr] or [RCODE[answer.header.rcode]]


def came_as(cluster: NodeCluster, server: socket.socket, address: str, port: int) -> str:
    """The client address that a pod sees for an external connection."""

    def attempt() -> str:
        client = connect(cluster.world, address, port, timeout=0.2)
        if client is None:
            return ""
        client.close()
        accepted, (source, _) = server.accept()
        accepted.close()
        return str(source)

    return str(wait_until(attempt))


def site(pod: AttachedPod, text: str) -> socket.socket:
    """A small web server in the pod, until `close`."""
    server = opened(pod.namespace, socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((pod.address, 8080))
    server.listen()
    body = f"this is {text}"
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                with client:
                    client.recv(65536)
                    client.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return server


def fetched(cluster: NodeCluster, address: str, host: str) -> str:
    """The HTTP response that an external client gets from a node for a host. Empty unless the status is
    200."""
    client = connect(cluster.world, address, 80, timeout=0.5)
    if client is None:
        return ""
    with client, suppress(OSError):
        client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b"")).decode()
        return answer if answer.startswith("HTTP/1.1 200") else ""
    return ""


class TrafficStream:
    """Continuous echo traffic on one connection; a gap is an error."""

    GAP_SECONDS_MAX = 0.15

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._ended = threading.Event()
        self._rounds = 0
        self._gap = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "TrafficStream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT)
        assert self._gap < self.GAP_SECONDS_MAX, f"nothing for {self._gap:.3f} s"

    def _run(self) -> None:
        while not self._ended.is_set():
            begun = time.monotonic()
            self._client.sendall(b"x")
            self._server.recv(1)
            self._server.sendall(b"y")
            self._client.recv(1)
            self._gap = max(self._gap, time.monotonic() - begun)
            self._rounds += 1
            time.sleep(0.001)

    def must_flow(self) -> None:
        before = self._rounds
        wait_until(lambda: self._rounds > before + 10)
