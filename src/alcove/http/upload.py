"""A request's body that is received while the request is handled.

It is read no faster than the receiver consumes it. Until there is a receiver, at most about HELD_BYTES_MAX
bytes are buffered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from alcove.http.errors import BodyTooLarge

HELD_BYTES_MAX = 64 << 10
"""Bytes of a body that are buffered before its request is admitted, per connection; beyond that, the socket is
not read."""


class UploadReceiver(Protocol):
    def take(self, data: bytes) -> None: ...

    def ended(self) -> None:
        """The body is complete."""
        ...


class RequestUpload:
    def __init__(
        self, length: int | None, on_pause: Callable[[], None], on_follow: Callable[[], None] = lambda: None
    ) -> None:
        """`length`: the request's Content-Length; None if the body is chunked. `on_pause` is called when
        `is_paused` changes, `on_follow` when the handler begins to receive the body."""
        self.length = length
        self.is_complete = False
        self.is_paused = False
        """Whether the socket must not be read."""
        self._on_pause = on_pause
        self._on_follow = on_follow
        self._receiver: UploadReceiver | None = None
        self._is_buffered = True
        self._held = bytearray()

    @property
    def held_bytes(self) -> int:
        """Bytes that are received, and that nobody receives yet."""
        return len(self._held)

    # Called by the handler of the request

    async def read(self, bytes_max: int) -> bytes:
        """The whole body. Raises BodyTooLarge."""
        collector = _Collector(bytes_max)
        self.follow(collector)
        return await collector.body

    def follow(self, receiver: UploadReceiver) -> None:
        """Pass the body to `receiver`, beginning with data already received."""
        self._receiver = receiver
        held, self._held = bytes(self._held), bytearray()
        self._on_follow()
        if held:
            receiver.take(held)
        if self.is_complete:
            receiver.ended()
        else:
            self.resume()

    def pause(self) -> None:
        if not self.is_complete and not self.is_paused:
            self.is_paused = True
            self._on_pause()

    def resume(self) -> None:
        if self.is_paused:
            self.is_paused = False
            self._on_pause()

    # Called by the connection

    def received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.take(data)
        elif self._is_buffered:
            self._held += data
            if len(self._held) > HELD_BYTES_MAX:
                self.pause()

    def finished(self) -> None:
        self.is_complete = True
        self.resume()  # What follows belongs to the next request.
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.ended()

    def discard(self) -> None:
        """Read and drop the rest of the body, because the request was answered."""
        self._receiver, self._is_buffered = None, False
        self._held = bytearray()
        self.resume()


class _Collector:
    """Joins a body up to a size."""

    def __init__(self, bytes_max: int) -> None:
        self.body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._bytes_max = bytes_max
        self._data = bytearray()

    def take(self, data: bytes) -> None:
        if self.body.done():
            return
        if len(self._data) + len(data) <= self._bytes_max:
            self._data += data
        else:
            self._data = bytearray()
            self.body.set_exception(BodyTooLarge(f"limit is {self._bytes_max} bytes"))

    def ended(self) -> None:
        if not self.body.done():
            data, self._data = bytes(self._data), bytearray()
            self.body.set_result(data)
