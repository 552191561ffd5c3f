"""The TCP proxy from a network to its tenant's API server: accepts connections in the gateway's namespace and
relays them over connections from the host's. TLS is passed through: pod and API server authenticate each
other.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import cast

from alcove.component.tasks import TaskSet

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 256
"""Of one network on one node; further connections wait in the listen backlog, then are refused."""
CONNECT_SECONDS_MAX = 5.0
LISTEN_BACKLOG = 128
BUFFER_BYTES = 256 << 10
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))

Address = tuple[str, int]


class _Side(asyncio.Protocol):
    """One side of a relayed connection: writes what it reads to the other side, with flow control."""

    def __init__(self) -> None:
        self.other: _Side | None = None
        self.transport: asyncio.Transport | None = None
        self.closed: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=BUFFER_BYTES)
        # Keepalive: a peer that vanished must not occupy a connection forever.
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in _KEEPALIVE:
            sock.setsockopt(socket.IPPROTO_TCP, option, seconds)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """Half-closes the other side; responses still pass."""
        if (
            self.other is not None
            and self.other.transport is not None
            and self.other.transport.can_write_eof()
        ):
            self.other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.transport = None
        self.closed()
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class ApiServerProxy:
    def __init__(self, sockets: tuple[socket.socket, ...], target: Callable[[], Address]) -> None:
        """`sockets` are bound, and closed by the proxy. `target` is called for every connection."""
        self._sockets = sockets
        self._target = target
        self._sides: set[_Side] = set()
        self._tasks = TaskSet()
        self._accepting = False
        self._closed = False

    def start(self) -> None:
        for sock in self._sockets:
            sock.setblocking(False)
            sock.listen(LISTEN_BACKLOG)
        self._accept_more()

    def close(self) -> None:
        self._closed = True
        self._stop_accepting()
        for sock in self._sockets:
            sock.close()
        self._tasks.cancel()
        for side in list(self._sides):
            if side.transport is not None:
                side.transport.abort()

    def _accept_more(self) -> None:
        if (
            not self._closed
            and not self._accepting
            and len(self._tasks) + len(self._sides) // 2 < CONNECTIONS_MAX
        ):
            self._accepting = True
            for sock in self._sockets:
                asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _stop_accepting(self) -> None:
        if self._accepting:
            self._accepting = False
            for sock in self._sockets:
                asyncio.get_running_loop().remove_reader(sock)

    def _accept(self, sock: socket.socket) -> None:
        try:
            client, _ = sock.accept()
        except OSError:
            return
        self._tasks.spawn("API server proxy", self._relay(client))
        if len(self._tasks) + len(self._sides) // 2 >= CONNECTIONS_MAX:
            self._stop_accepting()

    async def _relay(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        near, far = _Side(), _Side()
        near.other, far.other = far, near
        for side in (near, far):
            self._sides.add(side)
            side.closed = partial(self._side_closed, side)
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await loop.create_connection(lambda: far, *self._target())
            # Only now: nothing is read from the client before the other side is connected.
            await loop.connect_accepted_socket(lambda: near, client)
            if far.transport is None and near.transport is not None:
                near.transport.abort()  # The server has closed the connection meanwhile.
        except (OSError, TimeoutError) as error:
            log.info("failed to connect pod to API server", extra={"error": str(error)})
            client.close()
            for side in (near, far):
                if side.transport is not None:
                    side.transport.abort()
                self._side_closed(side)

    def _side_closed(self, side: _Side) -> None:
        self._sides.discard(side)
        self._accept_more()
