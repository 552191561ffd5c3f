"""What carries requests: the seam between the client and the network.

`pool.HttpPool` is the real one; tests put faults in between (`testing/faults.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct


class Response(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Stream(Protocol):
    """An answer that comes over time."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; ends with it. Raises Unreachable when the connection breaks first."""
        ...


class Transport(Protocol):
    """Belongs to one event loop. Retries nothing; what is asked is sent once."""

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        """The whole answer, whatever its status. Raises Unreachable, Malformed."""
        ...

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        """GET, answered over time. Entering waits for the answer's head; leaving closes the connection."""
        ...

    async def close(self) -> None: ...
