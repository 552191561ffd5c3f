"""Many connection attempts between network namespaces at once: which of them succeed.

An attempt succeeds if an answer comes back, so that it shows both directions. TCP connects; UDP and SCTP are asked and
answered. SCTP needs no support by the kernel: its packets are sent and received by raw sockets.

    with Reachability() as reachability:
        reachability.serve(namespace, "10.0.0.7", {"TCP": [80], "UDP": [80], "SCTP": [80]})
        succeeded = reachability.probe(attempts, wanted)
"""

import os
import selectors
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Self

from msgspec import Struct

from alcove.testing.probes import family_of, opened

PATIENCE_SECONDS = 30.0
"""For attempts that should succeed, also on a busy machine."""
RESEND_SECONDS = 0.5
QUIET_SECONDS = 0.06
"""How long attempts that should fail are given after the last of the others has succeeded."""
SCTP = 132
_SCTP_HEADER = struct.Struct("!HHII")
_QUESTION, _ANSWER = b"alcove-question-", b"alcove-answer---"


class Attempt(Struct, frozen=True, kw_only=True):
    """`source` is the descriptor of a network namespace; `name` tells attempts apart in reports."""

    name: str
    source: int
    source_address: str
    address: str
    port: int
    protocol: str
    question: bytes = b""
    """What is sent by UDP to a server that answers questions of its own; anything else goes to `serve`'s."""


class Reachability:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._servers: list[socket.socket] = []
        self._sctp: dict[str, socket.socket] = {}
        """By address: one raw socket serves, and asks."""
        self._accepted: set[socket.socket] = set()
        self._clients: dict[Attempt, socket.socket] = {}
        self._succeeded: set[Attempt] = set()
        self._questions: dict[bytes, Attempt] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self._servers, *self._accepted, *self._clients.values()):
            one.close()
        self._selector.close()

    def serve(self, namespace: int, address: str, ports: Mapping[str, Iterable[int]]) -> None:
        for number in ports.get("TCP", ()):
            server = self._server(opened(namespace, family_of(address), socket.SOCK_STREAM), address, number)
            server.listen(256)
            self._selector.register(server, selectors.EVENT_READ, self._accept)
        for number in ports.get("UDP", ()):
            server = self._server(opened(namespace, family_of(address), socket.SOCK_DGRAM), address, number)
            self._selector.register(server, selectors.EVENT_READ, self._echo_datagram)
        if "SCTP" in ports:
            raw = self._server(opened(namespace, family_of(address), socket.SOCK_RAW, SCTP), address, 0)
            self._sctp[address] = raw
            self._selector.register(raw, selectors.EVENT_READ, self._take_sctp)

    def _server(self, made: socket.socket, address: str, port: int) -> socket.socket:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        self._servers.append(made)
        return made

    # Probing

    def probe(
        self, attempts: Collection[Attempt], wanted: Collection[Attempt], kept: Collection[Attempt] = ()
    ) -> set[Attempt]:
        """The attempts that succeed. It ends some time after all of `wanted` have, or after PATIENCE_SECONDS. TCP
        connections of `kept` stay open until the next call of `probe`, for `flowing`."""
        self._forget(list(self._clients))
        self._succeeded.clear()
        self._questions.clear()
        for attempt in attempts:
            self._begin(attempt)
        self._wait(set(wanted), self._ask)
        # Of attempts that have not succeeded as well: the kernel would go on trying, and succeed as soon as it may.
        open_clients = self._succeeded & set(kept)
        self._forget([each for each in self._clients if each not in open_clients])
        return set(self._succeeded)

    def flowing(self, attempts: Collection[Attempt], wanted: Collection[Attempt]) -> set[Attempt]:
        """Those of the open TCP connections on which data passes in both directions now."""
        self._succeeded.clear()
        for attempt in attempts:
            with suppress(OSError):
                self._clients[attempt].send(_QUESTION)
        self._wait(set(wanted), lambda _attempt: None)
        return set(self._succeeded)

    def _forget(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            self._close(self._clients.pop(attempt))

    def _close(self, one: socket.socket) -> None:
        with suppress(KeyError):
            self._selector.unregister(one)
        one.close()

    def _begin(self, attempt: Attempt) -> None:
        if attempt.protocol == "SCTP":
            self._questions[os.urandom(8)] = attempt
        else:
            kind = socket.SOCK_STREAM if attempt.protocol == "TCP" else socket.SOCK_DGRAM
            client = opened(attempt.source, family_of(attempt.address), kind)
            client.setblocking(False)
            self._clients[attempt] = client
            with suppress(OSError):
                client.connect((attempt.address, attempt.port))
            events = selectors.EVENT_WRITE if attempt.protocol == "TCP" else selectors.EVENT_READ
            self._selector.register(client, events, attempt)
        self._ask(attempt)

    def _ask(self, attempt: Attempt) -> None:
        """Sends the question of a protocol that does not repeat by itself, or connects again after a refusal: a node hears
        of a new service later than the API server."""
        if attempt.protocol == "TCP" and self._clients[attempt] not in self._selector.get_map():
            self._forget([attempt])
            self._begin(attempt)
        elif attempt.protocol == "UDP":
            # An ICMP error of an earlier question may be reported here.
            with suppress(OSError):
                self._clients[attempt].send(attempt.question or _QUESTION)
        elif attempt.protocol == "SCTP":
            word = next(each for each, asked in self._questions.items() if asked is attempt)
            packet = _SCTP_HEADER.pack(40_000, attempt.port, 0, 0) + _QUESTION + word
            with suppress(OSError):
                self._sctp[attempt.source_address].sendto(packet, (attempt.address, 0))

    def _wait(self, wanted: set[Attempt], ask_again: Callable[[Attempt], None]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        again = time.monotonic() + RESEND_SECONDS
        while (missing := wanted - self._succeeded) and time.monotonic() < end:
            self._turn(0.05)
            if time.monotonic() > again:
                again = time.monotonic() + RESEND_SECONDS
                for attempt in missing:
                    ask_again(attempt)
        quiet_until = time.monotonic() + QUIET_SECONDS
        while (left := quiet_until - time.monotonic()) > 0:
            self._turn(left)

    def _turn(self, seconds_max: float) -> None:
        for key, _events in self._selector.select(seconds_max):
            ready = key.fileobj
            assert isinstance(ready, socket.socket)
            if isinstance(key.data, Attempt):
                self._progress(ready, key.data)
            else:
                key.data(ready)

    def _progress(self, client: socket.socket, attempt: Attempt) -> None:
        if attempt.protocol == "TCP" and attempt not in self._succeeded and not _is_connected(client):
            self._selector.unregister(client)
            return
        if attempt.protocol == "TCP" and self._selector.get_key(client).events == selectors.EVENT_WRITE:
            self._selector.modify(client, selectors.EVENT_READ, attempt)
            self._succeeded.add(attempt)
            return
        try:
            answer = client.recv(4096)
        except OSError:
            answer = b""
        if answer:
            self._succeeded.add(attempt)
        elif attempt.protocol == "TCP":
            self._selector.unregister(client)

    # Serving

    def _accept(self, server: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                client, _ = server.accept()
                client.setblocking(False)
                self._accepted.add(client)
                self._selector.register(client, selectors.EVENT_READ, self._echo_stream)

    def _echo_stream(self, client: socket.socket) -> None:
        try:
            heard = client.recv(4096)
            client.send(heard)
        except OSError:
            heard = b""
        if not heard:
            self._accepted.discard(client)
            self._close(client)

    def _echo_datagram(self, server: socket.socket) -> None:
        with suppress(OSError):
            heard, whom = server.recvfrom(4096)
            server.sendto(heard, whom)

    def _take_sctp(self, raw: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                packet, whom = raw.recvfrom(4096)
                packet = packet[20:] if raw.family == socket.AF_INET else packet
                source, target, *_ = _SCTP_HEADER.unpack_from(packet)
                text, word = packet[_SCTP_HEADER.size : -8], packet[-8:]
                if text == _QUESTION:
                    answer = _SCTP_HEADER.pack(target, source, 0, 0) + _ANSWER + word
                    raw.sendto(answer, (whom[0], 0))
                elif text == _ANSWER and word in self._questions:
                    self._succeeded.add(self._questions[word])


def _is_connected(client: socket.socket) -> bool:
    try:
        client.getpeername()
    except OSError:
        return False
    return True
