"""A bounded buffer of bytes between the task that reads a connection and the task that consumes its data."""

import asyncio
from collections import deque

BYTES_MAX = 256 << 10


class Inbox:
    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._is_ended = False
        self._changed = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether `put` waits."""
        return self._bytes > self._bytes_max and not self._is_ended

    async def put(self, data: bytes) -> None:
        """Returns when there is room for more. Data after the end is dropped."""
        if self._is_ended or not data:
            return
        self._chunks.append(data)
        self._bytes += len(data)
        self._changed.set()
        while self.is_full:
            await self._wait()

    def end(self) -> None:
        """Marks the end: no more data will be put."""
        self._is_ended = True
        self._changed.set()

    def discard(self) -> None:
        """Drops buffered and future data: there is no consumer any more."""
        self._chunks.clear()
        self._bytes = 0
        self.end()

    async def get(self) -> bytes:
        """The next received bytes; empty at the end."""
        while not self._chunks and not self._is_ended:
            await self._wait()
        if not self._chunks:
            return b""
        data = self._chunks.popleft()
        self._bytes -= len(data)
        self._changed.set()
        return data

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()
