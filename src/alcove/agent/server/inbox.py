"""Bytes on their way from a connection's reader to whoever wants them, never more than so many."""

import asyncio
from collections import deque

BYTES_MAX = 256 << 10


class Inbox:
    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: deque[bytes] = deque()
        self._bytes = 0
        self._is_ended = False
        self._changed = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whoever puts something in waits."""
        return self._bytes > self._bytes_max and not self._is_ended

    async def put(self, data: bytes) -> None:
        """Returns when there is room for more; what comes after the end is dropped."""
        if self._is_ended or not data:
            return
        self._parts.append(data)
        self._bytes += len(data)
        self._changed.set()
        while self.is_full:
            await self._wait()

    def end(self) -> None:
        """Nothing more comes."""
        self._is_ended = True
        self._changed.set()

    def discard(self) -> None:
        """Nobody wants the rest."""
        self._parts.clear()
        self._bytes = 0
        self.end()

    async def get(self) -> bytes:
        """What has come; empty at the end."""
        while not self._parts and not self._is_ended:
            await self._wait()
        if not self._parts:
            return b""
        data = self._parts.popleft()
        self._bytes -= len(data)
        self._changed.set()
        return data

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()
