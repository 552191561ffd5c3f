"""The TCP proxy from a network to its tenant's API server: accepts connections in the gateway's namespace and
relays them over connections from the host's. TLS is passed through: pod and API server authenticate each
other.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial

from alcove.agent.relay import RelaySide
from alcove.component.tasks import TaskSet

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 256
"""Of one network on one node; further connections wait in the listen backlog, then are refused."""
CONNECT_SECONDS_MAX = 5.0
LISTEN_BACKLOG = 128

Address = tuple[str, int]


class ApiServerProxy:
    def __init__(self, sockets: tuple[socket.socket, ...], target: Callable[[], Address]) -> None:
        """`sockets` are bound, and closed by the proxy. `target` is called for every connection."""
        self._sockets = sockets
        self._target = target
        self._sides: set[RelaySide] = set()
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
        near, far = RelaySide(), RelaySide()
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

    def _side_closed(self, side: RelaySide) -> None:
        self._sides.discard(side)
        self._accept_more()
