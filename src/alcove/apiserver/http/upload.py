"""A request's body that is still coming when the request is handled: for what is handed on, whatever its size.

It is not read faster than somebody takes it; what came before anybody did is kept, and no more than that is read.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

HELD_BYTES_MAX = 64 << 10


class Taker(Protocol):
    def take(self, data: bytes) -> None: ...

    def ended(self) -> None:
        """The body is whole."""
        ...


class Upload:
    def __init__(self, transport: asyncio.Transport, length: int | None) -> None:
        """`length`: as the client told it; None: it sends chunks."""
        self.length = length
        self.is_whole = False
        self._transport = transport
        self._taker: Taker | None = None
        self._is_wanted = True
        self._is_paused = False
        self._held: list[bytes] = []
        self._held_bytes = 0

    # Who takes it

    def follow(self, taker: Taker) -> None:
        """What comes goes to `taker`, what has come already first."""
        self._taker = taker
        held, self._held = self._held, []
        for data in held:
            taker.take(data)
        if self.is_whole:
            taker.ended()
        else:
            self.resume()

    def pause(self) -> None:
        if not self.is_whole and not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # The connection's side

    def received(self, data: bytes) -> None:
        if self._taker is not None:
            self._taker.take(data)
        elif self._is_wanted:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes > HELD_BYTES_MAX:
                self.pause()

    def finished(self) -> None:
        self.is_whole = True
        self.resume()  # What follows is not this body's.
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.ended()

    def discard(self) -> None:
        """Nobody wants the rest."""
        self._taker, self._is_wanted = None, False
        self._held.clear()
        self.resume()
