"""Accepts connections, and computes their TLS handshakes in threads beside the event loop.

A handshake takes a millisecond or two, so hundreds of connections that come together would stop the server for as
long. Here a connection waits until its client has sent something, and then for its turn, which goes round between
addresses; of one address the first to come is the first. But if that one has waited for long, the last is the first:
clients give up, and if each had to wait for a long queue, none would be served in time. A client that begins a handshake
and does not continue loses its place to one that waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from alcove.http.closing import is_established
from alcove.http.connections import ConnectionSlot, ConnectionTable
from alcove.http.errors import HandshakeFailed
from alcove.http.handshakes import RECEIVED_BYTES_MAX, complete
from alcove.http.limits import HttpLimits
from alcove.http.tls_transport import READ_BYTES_MAX, TlsSession, TlsTransport
from alcove.http.turns import ReadingTurns

log = logging.getLogger(__name__)

BACKLOG = 4_096
ACCEPTED_AT_ONCE_MAX = 16
"""Connections that are accepted in one iteration of the loop, per listening socket."""
HANDSHAKES_MAX = 128
"""TLS handshakes that are under way; further connections wait."""
HANDSHAKES_AT_ONCE_MAX = 4
"""TLS handshakes that begin in one iteration of the loop."""
HANDSHAKE_KEPT_SECONDS = 1.0
"""A handshake whose client does not continue for longer is ended when another connection waits for its place."""
THREADS = 2
"""Steps of handshakes that are computed at a time."""
STEPS_MAX = 8
"""Steps that are computed or wait for a thread. No handshake begins while there are more: it would wait behind them."""
PATIENCE_SECONDS = 0.25
"""If a connection has waited for its turn for longer, those of its address that came later are before it."""
NO_FILES_SECONDS = 1.0
"""How long no connection is accepted after the process had no file descriptors left."""

Protocols = Callable[[ConnectionSlot], asyncio.Protocol]


class _Arrival:
    """A connection that is accepted and not yet a protocol's."""

    __slots__ = ("is_connecting", "is_dropped", "ready_since", "slot", "sock", "task", "waiting_since")

    def __init__(self, slot: ConnectionSlot, sock: socket.socket) -> None:
        self.slot = slot
        self.sock = sock
        self.ready_since = 0.0
        """When it began to wait for its turn."""
        self.waiting_since = 0.0
        """When the handshake began to wait for the client; 0 while it does not."""
        self.task: asyncio.Task[None] | None = None
        self.is_connecting = False
        """Whether its transport is being made: then it is closed after that, as uvloop closes a transport that is
        cancelled meanwhile without telling a protocol that has it already."""
        self.is_dropped = False

    @property
    def is_gone(self) -> bool:
        """Whether the client has closed the connection, as one does that has waited for too long."""
        return not is_established(self.sock)


async def listen(hosts: Sequence[str], port: int, *, is_port_shared: bool = False) -> list[socket.socket]:
    """Sockets that listen at several addresses with the same port. Raises OSError."""
    loop = asyncio.get_running_loop()
    listeners: list[socket.socket] = []
    try:
        for host in hosts:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = found[0]
            # All addresses get the port that the system chose for the first.
            bound = (address[0], int(listeners[0].getsockname()[1]) if listeners else address[1])
            listener = socket.create_server(
                bound, family=socket.AddressFamily(family), backlog=BACKLOG, reuse_port=is_port_shared
            )
            listener.setblocking(False)
            listeners.append(listener)
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


class Acceptor:
    """Accepts the connections of several listening sockets."""

    def __init__(
        self,
        protocols: Protocols,
        table: ConnectionTable,
        tls: ssl.SSLContext | None,
        limits: HttpLimits,
        reading: ReadingTurns,
    ) -> None:
        """`protocols` creates the protocol of a connection, which sets the slot's `is_made` in
        `connection_made`."""
        self._protocols = protocols
        self._table = table
        self._tls = tls
        self._reading = reading
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="accepting")
        self._buffer = memoryview(bytearray(READ_BYTES_MAX))
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
        """Set while no handshake under way has waited for its client for long."""

    @property
    def port(self) -> int:
        return int(self._listeners[0].getsockname()[1])

    def accept(self, listeners: Sequence[socket.socket]) -> None:
        """Accepts connections of sockets that listen, which are closed with this."""
        self._listeners = list(listeners)
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
        self._threads.shutdown(wait=False, cancel_futures=True)

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
        arrival.slot.awaits_server = True
        arrival.ready_since = self._loop.time()
        self._ready.setdefault(arrival.slot.network, deque()).append(arrival)
        self._schedule()

    def _drop(self, arrival: _Arrival) -> None:
        """Closes a connection that is no protocol's yet."""
        if arrival.is_connecting:
            arrival.is_dropped = True
            return
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
            if sum(1 for each in self._shaking if not each.waiting_since) >= STEPS_MAX:
                return  # The end of a step is followed by another look.
            network, arrivals = self._ready.popitem(last=False)
            is_late = self._loop.time() - arrivals[0].ready_since > PATIENCE_SECONDS
            arrival = arrivals.pop() if is_late else arrivals.popleft()
            if arrivals:
                self._ready[network] = arrivals
            if arrival.is_gone:
                arrival.sock.close()
                self._table.closed(arrival.slot)
            else:
                self._begin(arrival)
        if self._ready:
            self._schedule()

    def _make_room(self) -> None:
        """Ends the handshake that has waited for its client for longest, of the network that has most of them, if
        that is long; otherwise looks again later."""
        waiting = [each for each in self._shaking if each.waiting_since]
        remaining = HANDSHAKE_KEPT_SECONDS
        if waiting:
            counts = Counter(each.slot.network for each in waiting)
            oldest = min(waiting, key=lambda each: (-counts[each.slot.network], each.waiting_since))
            remaining += oldest.waiting_since - self._loop.time()
            if remaining <= 0:
                oldest.slot.close()
                return
        if self._timer is None:
            self._timer = self._loop.call_later(remaining, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._schedule()

    def _begin(self, arrival: _Arrival) -> None:
        self._shaking.add(arrival)
        arrival.task = self._loop.create_task(self._connect(arrival))
        arrival.task.add_done_callback(partial(self._ended, arrival))

    async def _connect(self, arrival: _Arrival) -> None:
        try:
            session = None if self._tls is None else await self._shake(arrival, self._tls)
            arrival.is_connecting = True
            transport, _ = await self._loop.connect_accepted_socket(
                partial(self._protocol, arrival, session), arrival.sock
            )
            if arrival.is_dropped:
                transport.abort()
        except (OSError, HandshakeFailed):
            pass  # The client is gone, is too slow, or does not speak TLS.

    async def _shake(self, arrival: _Arrival, tls: ssl.SSLContext) -> TlsSession:
        """Raises OSError and HandshakeFailed."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = TlsSession(tls.wrap_bio(incoming, outgoing, server_side=True), incoming, outgoing)
        async with asyncio.timeout(self._handshake_seconds_max):
            # It has sent something, so this is not a wait for the client.
            incoming.write(await self._loop.sock_recv(arrival.sock, RECEIVED_BYTES_MAX))
            await complete(
                session,
                partial(self._loop.run_in_executor, self._threads),
                partial(self._loop.sock_sendall, arrival.sock),
                partial(self._receive, arrival),
            )
        return session

    async def _receive(self, arrival: _Arrival) -> bytes:
        arrival.waiting_since, arrival.slot.awaits_server = self._loop.time(), False
        if self._ready:
            self._schedule()
        data = await self._loop.sock_recv(arrival.sock, RECEIVED_BYTES_MAX)
        arrival.waiting_since, arrival.slot.awaits_server = 0.0, True
        return data

    def _protocol(self, arrival: _Arrival, session: TlsSession | None) -> asyncio.BaseProtocol:
        arrival.slot.awaits_server = False
        protocol = self._protocols(arrival.slot)
        if session is None:
            return protocol
        return TlsTransport(session, protocol, self._buffer, partial(self._schedule_reading, arrival.slot))

    def _schedule_reading(self, slot: ConnectionSlot, transport: TlsTransport) -> None:
        self._reading.read(slot.group or f"@{slot.network}", transport)

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
