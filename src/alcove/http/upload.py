"""A request's body that is received while the request is handled.

It is read no faster than the receiver consumes it. Until there is a receiver, at most about HELD_BYTES_MAX
bytes are buffered.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

HELD_BYTES_MAX = 64 << 10


class UploadReceiver(Protocol):
    def take(self, data: bytes) -> None: ...

    def ended(self) -> None:
        """The body is complete."""
        ...


class RequestUpload:
    def __init__(self, transport: asyncio.Transport, length: int | None) -> None:
        """`length`: the request's Content-Length; None if the body is chunked."""
        self.length = length
        self.is_complete = False
        self._transport = transport
        self._receiver: UploadReceiver | None = None
        self._is_buffered = True
        self._is_paused = False
        self._held: list[bytes] = []
        self._held_bytes = 0

    # Called by the handler of the request

    def follow(self, receiver: UploadReceiver) -> None:
        """Pass the body to `receiver`, beginning with data already received."""
        self._receiver = receiver
        held, self._held = self._held, []
        for data in held:
            receiver.take(data)
        if self.is_complete:
            receiver.ended()
        else:
            self.resume()

    def pause(self) -> None:
        if not self.is_complete and not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # Called by the connection

    def received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.take(data)
        elif self._is_buffered:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes > HELD_BYTES_MAX:
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
        self._held.clear()
        self.resume()
