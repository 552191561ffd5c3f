"""Pipes and terminals of this machine, read and written without blocking."""

import asyncio
import os
from asyncio import Future

READ_BYTES = 32 << 10


class DescriptorReader:
    """The reading end of a pipe, or a terminal's upper end."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._is_finishing = False
        self._waiting: Future[None] | None = None

    async def read(self) -> bytes:
        """What there is; empty at the end."""
        while True:
            try:
                return os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                if self._is_finishing:
                    return b""
            except OSError:
                return b""  # A terminal whose lower end nobody holds any more.
            await self._readable()

    def finish(self) -> None:
        """Whoever wrote has ended: what is there now is all, whoever else may still hold the other end."""
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
    """The writing end of a pipe, or a terminal's upper end. Takes what nobody reads any more, and drops it."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
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
