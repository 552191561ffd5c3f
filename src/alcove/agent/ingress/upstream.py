"""Connections to backends: dialled from the network's gateway, kept for a while, given to one request at a time."""

import asyncio
import random
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import SupportsIndex

from msgspec import Struct

from alcove.agent.ingress.limits import Limits
from alcove.agent.ingress.message import Messages
from alcove.agent.ingress.table import Target
from alcove.client.keys import Space

Dial = Callable[[Space, str, str, int], Awaitable[socket.socket]]
"""(tenant, network, address, port) → a connected socket of that network. Raises OSError."""
_Place = tuple[Space, str, str, int]


class _Reader(asyncio.StreamReader):
    """Knows how much has come, read or not."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.come = 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        assert isinstance(data, bytes | bytearray | memoryview)
        self.come += len(data)
        super().feed_data(data)


async def _opened(sock: socket.socket) -> tuple[_Reader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = _Reader(loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, sock=sock)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class Connection:
    def __init__(self, place: _Place, reader: _Reader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self.place = place
        self.writer = writer
        self._reader = reader
        self.messages = Messages(reader, limits, requests=False)
        self.is_used = False
        """It has served a request before: the backend may be closing it at this moment."""

    @property
    def is_usable(self) -> bool:
        """For another request: the backend has said all that it was asked for, and not a byte more."""
        is_read = self._reader.come == self.messages.taken
        return is_read and self.messages.is_quiet and not self.writer.is_closing()

    def close(self) -> None:
        self.writer.close()


class _Kept(Struct, frozen=True):
    connection: Connection
    since: float


class Upstreams:
    def __init__(self, dial: Dial, limits: Limits, clock: Callable[[], float]) -> None:
        self._dial = dial
        self._limits = limits
        self._clock = clock
        self._kept: dict[_Place, deque[_Kept]] = {}
        self._count = 0

    async def connect(self, target: Target, *, fresh: bool = False) -> Connection:
        """One that is kept, unless it has to be `fresh`, or a new one. Raises OSError, TimeoutError."""
        address, port = random.choice(target.addresses)
        place = (target.space, target.network, address, port)
        kept = None if fresh else self._take(place)
        if kept is not None:
            return kept
        async with asyncio.timeout(self._limits.connect_seconds_max):
            sock = await self._dial(*place)
        try:
            reader, writer = await _opened(sock)
        except BaseException:
            sock.close()
            raise
        return Connection(place, reader, writer, self._limits)

    def _take(self, place: _Place) -> Connection | None:
        """The one used last: the others may grow old and go."""
        kept = self._kept.get(place)
        while kept:
            found = kept.pop()
            self._count -= 1
            if found.connection.is_usable and not self._is_old(found):
                return found.connection
            found.connection.close()
        self._kept.pop(place, None)
        return None

    def _is_old(self, kept: _Kept) -> bool:
        return self._clock() - kept.since > self._limits.pooled_seconds_max

    def give_back(self, connection: Connection) -> None:
        """For another request; one that cannot serve it, or is one too many, is closed."""
        kept = self._kept.setdefault(connection.place, deque())
        full = len(kept) >= self._limits.pooled_max or self._count >= self._limits.pooled_total_max
        if full or not connection.is_usable:
            connection.close()
            if not kept:
                del self._kept[connection.place]
            return
        connection.is_used = True
        kept.append(_Kept(connection, self._clock()))
        self._count += 1

    def sweep(self) -> None:
        """Closes what nobody has used for long; to be called now and then."""
        for place, kept in list(self._kept.items()):
            while kept and (self._is_old(kept[0]) or not kept[0].connection.is_usable):
                kept.popleft().connection.close()
                self._count -= 1
            if not kept:
                del self._kept[place]

    def close(self) -> None:
        for kept in self._kept.values():
            for each in kept:
                each.connection.close()
        self._kept.clear()
        self._count = 0
