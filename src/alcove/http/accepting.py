"""Accepts connections, and computes few TLS handshakes at a time.

A handshake takes about a millisecond of the loop, so hundreds of connections that come together would stop the
server for as long. Here a connection waits until its client has sent something, and then for its turn, which goes
round between addresses. A client that begins a handshake and does not continue loses its place to one that waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial

from alcove.http.connections import ConnectionSlot, ConnectionTable
from alcove.http.limits import HttpLimits

log = logging.getLogger(__name__)

BACKLOG = 4_096
ACCEPTED_AT_ONCE_MAX = 16
"""Connections that are accepted in one iteration of the loop, per listening socket."""
HANDSHAKES_MAX = 32
"""TLS handshakes that are under way; further connections wait."""
HANDSHAKES_AT_ONCE_MAX = 4
"""TLS handshakes that begin in one iteration of the loop."""
HANDSHAKE_KEPT_SECONDS = 1.0
"""A handshake that takes longer is ended when another connection waits for its place."""
NO_FILES_SECONDS = 1.0
"""How long no connection is accepted after the process had no file descriptors left."""

Protocols = Callable[[ConnectionSlot], asyncio.Protocol]


class _Arrival:
    """A connection that is accepted and not yet a protocol's."""

    __slots__ = ("slot", "sock", "started", "task")

    def __init__(self, slot: ConnectionSlot, sock: socket.socket) -> None:
        self.slot = slot
        self.sock = sock
        self.started = 0.0
        self.task: asyncio.Task[None] | None = None


class Acceptor:
    """Listens at several addresses with the same port."""

    def __init__(
        self, protocols: Protocols, table: ConnectionTable, tls: ssl.SSLContext | None, limits: HttpLimits
    ) -> None:
        """`protocols` creates the protocol of a connection, which sets the slot's `is_made` in
        `connection_made`."""
        self._protocols = protocols
        self._table = table
        self._tls = tls
        self._handshake_seconds_max = limits.handshake_seconds_max
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []
        self._silent: set[_Arrival] = set()
        """Connections whose clients have not sent anything yet."""
        self._ready: OrderedDict[str, deque[_Arrival]] = OrderedDict()
        """Connections that wait for their handshake, by the network of the client; the next network first."""
        self._shaking: set[_Arrival] = set()
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        """Set while all handshakes under way are young."""

    @property
    def port(self) -> int:
        return int(self._listeners[0].getsockname()[1])

    async def listen(self, hosts: Sequence[str], port: int) -> None:
        """Raises OSError."""
        for host in hosts:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = found[0]
            # All addresses get the port that the system chose for the first.
            bound = (address[0], self.port if self._listeners else address[1])
            listener = socket.create_server(bound, family=socket.AddressFamily(family), backlog=BACKLOG)
            listener.setblocking(False)
            self._listeners.append(listener)
        for listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        waiting = [*self._silent, *(arrival for each in self._ready.values() for arrival in each)]
        for arrival in waiting:
            arrival.slot.close()
        for arrival in list(self._shaking):
            arrival.slot.close()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            try:
                sock, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listener, error)
                return
            slot = self._table.open(str(peer[0]), self._loop.time())
            if slot is None:
                sock.close()
                continue
            self._arrived(_Arrival(slot, sock))

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            raise error
        log.error("failed to accept a connection; retrying", extra={"error": str(error)})
        self._loop.remove_reader(listener)
        self._loop.call_later(NO_FILES_SECONDS, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.add_reader(listener, self._accept, listener)

    def _arrived(self, arrival: _Arrival) -> None:
        arrival.sock.setblocking(False)
        arrival.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        arrival.slot.close = partial(self._drop, arrival)
        if self._tls is None:
            self._begin(arrival)
            return
        self._silent.add(arrival)
        self._loop.add_reader(arrival.sock, self._has_sent, arrival)

    def _has_sent(self, arrival: _Arrival) -> None:
        self._loop.remove_reader(arrival.sock)
        self._silent.discard(arrival)
        self._ready.setdefault(arrival.slot.network, deque()).append(arrival)
        self._schedule()

    def _drop(self, arrival: _Arrival) -> None:
        """Closes a connection that is no protocol's yet."""
        if arrival.task is not None:
            arrival.task.cancel()
            return
        if arrival in self._silent:
            self._loop.remove_reader(arrival.sock)
            self._silent.discard(arrival)
        else:
            own = self._ready[arrival.slot.network]
            own.remove(arrival)
            if not own:
                del self._ready[arrival.slot.network]
        arrival.sock.close()
        self._table.closed(arrival.slot)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._is_scheduled = False
        for _ in range(HANDSHAKES_AT_ONCE_MAX):
            if not self._ready:
                return
            if len(self._shaking) >= HANDSHAKES_MAX:
                self._make_room()
                return
            network, arrivals = self._ready.popitem(last=False)
            # The newest first: in a flood, who waits for long is mostly the flood or has given up.
            self._begin(arrivals.pop())
            if arrivals:
                self._ready[network] = arrivals
        if self._ready:
            self._schedule()

    def _make_room(self) -> None:
        """Ends the oldest handshake of the network that has most, if it takes long; otherwise looks again
        later."""
        counts: dict[str, int] = {}
        for each in self._shaking:
            counts[each.slot.network] = counts.get(each.slot.network, 0) + 1
        oldest = min(self._shaking, key=lambda each: (-counts[each.slot.network], each.started))
        remaining = oldest.started + HANDSHAKE_KEPT_SECONDS - self._loop.time()
        if remaining <= 0:
            oldest.slot.close()
        elif self._timer is None:
            self._timer = self._loop.call_later(remaining, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._schedule()

    def _begin(self, arrival: _Arrival) -> None:
        arrival.started = self._loop.time()
        self._shaking.add(arrival)
        arrival.task = self._loop.create_task(self._connect(arrival))
        arrival.task.add_done_callback(partial(self._ended, arrival))

    async def _connect(self, arrival: _Arrival) -> None:
        try:
            await self._loop.connect_accepted_socket(
                partial(self._protocols, arrival.slot),
                arrival.sock,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_seconds_max if self._tls is not None else None,
            )
        except OSError:
            pass  # The client is gone, is too slow, or does not speak TLS.

    def _ended(self, arrival: _Arrival, _task: asyncio.Task[None]) -> None:
        """Called also for a task that was cancelled before it began."""
        self._shaking.discard(arrival)
        if not arrival.slot.is_made:
            with contextlib.suppress(OSError):
                # Also if the transport has its own reference to the socket.
                arrival.sock.shutdown(socket.SHUT_RDWR)
            arrival.sock.close()
            self._table.closed(arrival.slot)
        if self._ready:
            self._schedule()
