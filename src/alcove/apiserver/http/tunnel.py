"""A connection that is no longer HTTP: the transport's side of a `Takeover`."""

import asyncio

from alcove.apiserver.http.messages import Takeover


class Tunnel(asyncio.Protocol):
    """Put in the place of the protocol that `before` was, which is told of the end."""

    def __init__(self, before: asyncio.Protocol, takeover: Takeover) -> None:
        self._before = before
        self._takeover = takeover
        # Bound once: bytes are handed on without another call.
        self.data_received = takeover.received  # type: ignore[method-assign]
        self.pause_writing = takeover.pause  # type: ignore[method-assign]
        self.resume_writing = takeover.resume  # type: ignore[method-assign]

    def connection_lost(self, exc: Exception | None) -> None:
        self._takeover.stop()
        self._before.connection_lost(exc)
        vars(self).clear()  # What it held holds it, too, by way of the transport.
