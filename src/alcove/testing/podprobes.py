"""Probes from the network namespaces of a cluster's pods (`nodecluster`): reachability, DNS, and access from
outside."""

import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from dnslib import RCODE, DNSRecord

from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.probes import TIMEOUT, connect, family_of, opened, tcp_server
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


def asked(
    pod: AttachedPod, name: str, kind: str = "A", server: str = "", timeout: float = TIMEOUT
) -> list[str]:
    """The answers of the pod's DNS server, or the response code. Raises TimeoutError."""
    question = DNSRecord.question(name, kind)
    server = server or pod.attachment.nameservers[0]
    with opened(pod.namespace, family_of(server), socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.connect((server, 53))
        sock.send(question.pack())
        answer = DNSRecord.parse(sock.recv(4096))
    assert answer.header.id == question.header.id
    return [str(each.rdata) for each in answer.rr] or [RCODE[answer.header.rcode]]


def resolves(pod: AttachedPod, name: str, wanted: Sequence[str], kind: str = "A") -> None:
    """Waits until the pod's DNS server answers so: a node hears of objects a moment after they were written."""
    wait_until(lambda: asked(pod, name, kind) == list(wanted))


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


@contextmanager
def site(pod: AttachedPod, text: str) -> Iterator[None]:
    """A small web server in the pod."""
    body = f"this is {text}"
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()

    def serve(server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, suppress(OSError):
                client.recv(65536)
                client.sendall(answer)

    with tcp_server(pod.namespace, pod.address, 8080) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


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
    """Continuous echo traffic on one connection; a lost packet is an error."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._ended = threading.Event()
        self._rounds = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "TrafficStream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT)
        assert (_lost(self._client), _lost(self._server)) == (0, 0), "packets were lost"

    def _run(self) -> None:
        while not self._ended.is_set():
            self._client.sendall(b"x")
            self._server.recv(1)
            self._server.sendall(b"y")
            self._client.recv(1)
            self._rounds += 1
            time.sleep(0.001)

    def must_flow(self) -> None:
        before = self._rounds
        wait_until(lambda: self._rounds > before + 10)


def _lost(sock: socket.socket) -> int:
    """How many segments did not arrive: those that were sent again, but for those of which the peer says that it had
    them already (a busy machine may acknowledge late)."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    [sent_again], [had_already] = (struct.unpack_from("=I", info, offset) for offset in (100, 216))
    return int(sent_again - had_already)
