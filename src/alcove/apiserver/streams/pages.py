"""The bodies of proxied HTML pages: collected up to a limit, so that their links can be rewritten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from alcove.apiserver.streams.relays import BodyRelay
from alcove.http.client import HttpClientConnection
from alcove.http.messages import ResponseWriter


class PageBody:
    """A `BodyReceiver` that collects a response's body. It stops reading when the body is longer than
    `bytes_max`; `relay` then passes on what was collected, and the rest as it comes."""

    def __init__(self, backend: HttpClientConnection, bytes_max: int) -> None:
        self.data = bytearray()
        self._backend = backend
        self._bytes_max = bytes_max
        self._outcome: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()

    async def collect(self) -> bool:
        """Returns whether the body is complete; False if it is too long. Raises ConnectionError."""
        self._backend.follow(self)
        outcome = await self._outcome
        if outcome is None:
            raise ConnectionResetError("the backend closed the connection before the end of the page")
        return outcome

    def relay(self, done: Callable[[], None]) -> BodyRelay:
        return _PageRelay(self._backend, done, self.data)

    # http.client.BodyReceiver

    def take(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > self._bytes_max:
            self._backend.pause()
            self._decide(False)

    def ended(self, is_complete: bool) -> None:
        self._decide(True if is_complete else None)

    def hold(self) -> None:
        """Nothing more is written to the backend."""

    def release(self) -> None:
        pass

    def _decide(self, outcome: bool | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)


class _PageRelay(BodyRelay):
    def __init__(self, backend: HttpClientConnection, done: Callable[[], None], collected: bytearray) -> None:
        super().__init__(backend, done)
        self._collected = collected

    def start(self, writer: ResponseWriter) -> None:
        writer.write(bytes(self._collected))
        self._collected.clear()
        super().start(writer)
