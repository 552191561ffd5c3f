"""Non-blocking reading and writing of pipes and pseudoterminals."""

import asyncio
import os
from asyncio import Future

READ_BYTES = 32 << 10


class DescriptorReader:
    """Reads from a pipe or from the master of a pseudoterminal."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._is_finishing = False
        self._waiting: Future[None] | None = None

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        while True:
            try:
                return os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                if self._is_finishing:
                    return b""
            except OSError:
                return b""  # EIO: no process has the terminal open any more.
            await self._readable()

    def finish(self) -> None:
        """Makes `read` return the bytes that are buffered now, then the end, even if another process still
        has the writing end open."""
        self._is_finishing = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = waiting = loop.create_future()
        loop.add_reader(self._descriptor, _resolve, waiting)
        try:
            await waiting
        finally:
            loop.remove_reader(self._descriptor)


class DescriptorWriter:
    """Writes to a pipe or to the master of a pseudoterminal. Drops the data once the reading end is
    closed."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def write(self, data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            try:
                remaining = remaining[os.write(self._descriptor, remaining) :]
            except BlockingIOError:
                await self._writable()
            except OSError:
                return

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        waiting: Future[None] = loop.create_future()
        loop.add_writer(self._descriptor, _resolve, waiting)
        try:
            await waiting
        finally:
            loop.remove_writer(self._descriptor)


def _resolve(waiting: Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
