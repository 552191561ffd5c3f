"""The interface between the client and the network.

`pool.HttpPool` is the real implementation; tests inject faults (`testing/faults.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from alcove.http.client import ReceivedResponse


class Stream(Protocol):
    """A streamed response."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of the body as they arrive. Raises Unreachable if the connection breaks before its
        end."""
        ...


class Transport(Protocol):
    """Belongs to one event loop. Sends each request once, without retries."""

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        """The complete response, whatever its status. Raises Unreachable and MalformedResponse."""
        ...

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        """GET with a streamed response. Entering waits for the response's head; leaving closes the
        connection."""
        ...

    async def close(self) -> None: ...
