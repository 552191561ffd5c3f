"""The protocol of a server's connection after it was upgraded."""

from __future__ import annotations

import asyncio

from alcove.http.messages import UpgradedConnection


class Tunnel(asyncio.Protocol):
    """The protocol of a connection that is no longer HTTP."""

    def __init__(self, before: asyncio.Protocol, upgraded: UpgradedConnection) -> None:
        self._before = before
        self._upgraded = upgraded
        # Bound directly, so that bytes are passed on without another call.
        self.data_received = upgraded.received  # type: ignore[method-assign]
        self.pause_writing = upgraded.pause  # type: ignore[method-assign]
        self.resume_writing = upgraded.resume  # type: ignore[method-assign]

    def begin(self, transport: asyncio.Transport, early: bytes, *, is_paused: bool) -> None:
        """Take over the transport; `early` are bytes that were received before."""
        upgraded = self._upgraded
        transport.set_protocol(self)
        upgraded.start(transport)
        if is_paused:
            upgraded.pause()
        if early:
            upgraded.received(early)

    def connection_lost(self, exc: Exception | None) -> None:
        self._upgraded.stop()
        self._before.connection_lost(exc)
        vars(self).clear()  # Break the reference cycle through the transport.
