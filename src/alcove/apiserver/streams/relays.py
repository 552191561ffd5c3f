"""Relays between a client and an agent: bytes both ways, or a response's body (a log, a proxied response) one
way.

Neither side is read faster than the other accepts data. When one side closes, the other is closed too: data
that was sent before is still flushed to it, for at most FLUSH_SECONDS_MAX.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from alcove.http.client import HttpClientConnection
from alcove.http.closing import FLUSH_SECONDS_MAX, is_established
from alcove.http.messages import ResponseWriter

IDLE_SECONDS_MAX = 4 * 3600.0
HELD_SECONDS = 5.0


class StreamRelay:
    """An `UpgradedConnection`, and the `BodyReceiver` of what the agent sends."""

    def __init__(
        self,
        agent: HttpClientConnection,
        done: Callable[[], None],
        idle_seconds_max: float = IDLE_SECONDS_MAX,
    ) -> None:
        """`done` is called once, when the relay has ended."""
        self._agent = agent
        self._done = done
        self._idle_seconds_max = idle_seconds_max
        self._client: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._active_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._is_held = False
        """Reading from the client is paused."""

    # The client's side (http.messages.UpgradedConnection)

    def start(self, transport: asyncio.Transport) -> None:
        self._client = transport
        self._timer = self._loop.call_later(self._idle_seconds_max, self._check_idle)
        self._agent.follow(self)

    def received(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        self._agent.transport.write(data)

    def pause(self) -> None:
        self._agent.pause()

    def resume(self) -> None:
        self._agent.resume()

    def stop(self) -> None:
        self._client = None
        self._agent.close()
        self._finish()

    # The agent's side (http.client.BodyReceiver)

    def take(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        if self._client is not None:
            self._client.write(data)

    def ended(self, is_complete: bool) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
            # A client that no longer reads is not waited for.
            self._loop.call_later(FLUSH_SECONDS_MAX, client.abort)
        self._finish()

    def hold(self) -> None:
        self._is_held = True
        if self._client is not None:
            _set_reading(self._client, False)
            self._loop.call_later(HELD_SECONDS, self._check_client)

    def release(self) -> None:
        self._is_held = False
        if self._client is not None:
            _set_reading(self._client, True)

    def _check_client(self) -> None:
        """Polls for a closed connection: while reading is paused, asyncio does not report it."""
        if not self._is_held or self._client is None:
            return
        if is_established(self._client.get_extra_info("socket")):
            self._loop.call_later(HELD_SECONDS, self._check_client)
        else:
            self._client.abort()

    def _check_idle(self) -> None:
        remaining = self._active_at + self._idle_seconds_max - self._loop.time()
        if remaining <= 0:
            if self._client is not None:
                self._client.close()
            self._agent.close()
            self._finish()
        else:
            self._timer = self._loop.call_later(remaining, self._check_idle)

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        done, self._done = self._done, _nothing
        done()


class BodyBounds(Struct, frozen=True):
    """What a reader of the whole body can bear."""

    bytes_max: int
    values_max: int | None
    """Of a JSON document, about: what is inside strings may count too. None for any number."""


class BodyRelay:
    """A `ResponseStream`, and the `BodyReceiver` of a response's body."""

    def __init__(
        self,
        agent: HttpClientConnection,
        done: Callable[[], None],
        release: Callable[[HttpClientConnection], None] = HttpClientConnection.close,
        bounds: BodyBounds | None = None,
    ) -> None:
        """`done` and `release` are called once, at the end; `release` gets the connection, which it closes or keeps.
        A body that exceeds `bounds` is cut off."""
        self._agent = agent
        self._done = done
        self._release = release
        self._bounds = bounds
        self._bytes = self._values = 0
        self._is_cut = False
        self._writer: ResponseWriter | None = None

    # The client's side (http.messages.ResponseStream)

    def start(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._agent.follow(self)

    def resume(self) -> None:
        self._agent.resume()

    def stop(self) -> None:
        self._writer = None
        self._end()

    # The agent's side (http.client.BodyReceiver)

    def take(self, data: bytes) -> None:
        if self._writer is None or not data or self._is_cut:
            return
        if self._bounds is not None and self._exceeds(self._bounds, data):
            self._is_cut = True
            self._agent.abort()
            return
        self._writer.write(data)
        if self._writer.paused:
            self._agent.pause()

    def _exceeds(self, bounds: BodyBounds, data: bytes) -> bool:
        self._bytes += len(data)
        if bounds.values_max is not None:
            self._values += data.count(b",") + data.count(b"{") + data.count(b"[")
            if self._values > bounds.values_max:
                return True
        return self._bytes > bounds.bytes_max

    def ended(self, is_complete: bool) -> None:
        writer, self._writer = self._writer, None
        self._end()
        if writer is not None:
            # A truncated response must not look complete.
            (writer.finish if is_complete and not self._is_cut else writer.abort)()

    def hold(self) -> None:
        """Nothing more is written to the agent."""

    def release(self) -> None:
        pass

    def _end(self) -> None:
        release, self._release = self._release, _keep
        release(self._agent)
        done, self._done = self._done, _nothing
        done()


def _set_reading(transport: asyncio.Transport, enabled: bool) -> None:
    if not transport.is_closing():
        (transport.resume_reading if enabled else transport.pause_reading)()


def _nothing() -> None:
    pass


def _keep(_agent: HttpClientConnection) -> None:
    pass
