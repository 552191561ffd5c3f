"""Requests and responses, and what their bodies may be. No I/O.

A response's body is bytes, or a `ResponseStream` that writes it over time, or, with status 101, an
`UpgradedConnection`: what the connection is from then on.
"""

from __future__ import annotations

from asyncio import Transport
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl

from msgspec import Struct

from alcove.http.errors import MalformedMessage

if TYPE_CHECKING:
    from alcove.http.upload import RequestUpload

Field = tuple[bytes, bytes]
"""A header field as it is on the wire: name and value."""

JSON = b"application/json"
QUERY_PARAMETERS_MAX = 100


class HttpHead(Struct):
    """The head of a request (`method`, `target`) or of a response (`status`, `reason`)."""

    fields: list[Field]
    """In the order in which they came."""
    headers: dict[str, str]
    """The same by their names in lower case; repeated ones are joined by commas."""
    version: str
    keep_alive: bool
    upgrade: bool
    """A request asks for another protocol after it, or a response begins one."""
    is_chunked: bool = False
    length: int | None = None
    """What Content-Length says; None without one."""
    method: bytes = b""
    target: bytes = b""
    status: int = 0
    reason: bytes = b""

    @property
    def has_body(self) -> bool:
        """Of a request."""
        return self.is_chunked or bool(self.length)

    @property
    def ends_with_connection(self) -> bool:
        """Of a response (not to HEAD): its body has no length, its end is the connection's."""
        is_bodiless = self.status < 200 or self.status in (204, 304)
        return not is_bodiless and not self.is_chunked and self.length is None


class ResponseWriter(Protocol):
    """The connection, as a stream writes its body to it."""

    @property
    def paused(self) -> bool:
        """The client reads too slowly: what is written now is kept in memory."""
        ...

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Ends the body; the connection goes on to the next request."""
        ...

    def abort(self) -> None:
        """Ends the connection instead of the body, so that the client knows that there is more."""
        ...


class ResponseStream(Protocol):
    """A body that is written over time, by calls from the server rather than a task of its own."""

    def start(self, writer: ResponseWriter) -> None: ...

    def resume(self) -> None:
        """The client has caught up: `paused` is false again."""
        ...

    def stop(self) -> None:
        """The client is gone or the server stops; nothing may be written any more."""
        ...


class UpgradedConnection(Protocol):
    """What a connection is after the 101 that a request asked for: bytes both ways."""

    def start(self, transport: Transport) -> None:
        """The 101 has been written. The connection is closed by closing the transport."""
        ...

    def received(self, data: bytes) -> None: ...

    def pause(self) -> None:
        """The client reads too slowly: what is written now is kept in memory."""
        ...

    def resume(self) -> None: ...

    def stop(self) -> None:
        """The client is gone, or never was; nothing may be written any more."""
        ...


class HttpRequest:
    """One request to a server."""

    __slots__ = (
        "address",
        "body",
        "fields",
        "headers",
        "keep_alive",
        "method",
        "path",
        "peer",
        "raw_query",
        "upload",
    )

    def __init__(
        self,
        method: str,
        path: str,
        raw_query: str,
        headers: dict[str, str],
        body: bytes = b"",
        fields: Sequence[Field] = (),
        peer: object = None,
        address: str = "",
        keep_alive: bool = True,
    ) -> None:
        self.method = method
        self.path = path
        self.raw_query = raw_query
        self.headers = headers
        """By their names in lower case; repeated ones are joined by commas."""
        self.body = body
        self.fields = fields
        """The headers as they came."""
        self.peer = peer
        """What the server's `identify` made of the client's certificate; None without one."""
        self.address = address
        self.keep_alive = keep_alive
        self.upload: RequestUpload | None = None
        """The body, where the request is handled before it has come: `body` is empty then."""

    def query(self) -> dict[str, str]:
        """Query parameters; the first of several equal ones counts, as in Go. Raises MalformedMessage."""
        if not self.raw_query:
            return {}
        try:
            pairs = parse_qsl(
                self.raw_query,
                keep_blank_values=True,
                strict_parsing=False,
                max_num_fields=QUERY_PARAMETERS_MAX,
            )
        except ValueError as error:
            raise MalformedMessage(
                f"the query string has too many parameters: at most {QUERY_PARAMETERS_MAX} are accepted"
            ) from error
        return dict(reversed(pairs))


class HttpResponse:
    """One response of a server."""

    __slots__ = ("body", "content_type", "done", "headers", "length", "status")

    def __init__(
        self,
        status: int,
        body: bytes | ResponseStream | UpgradedConnection,
        content_type: bytes = JSON,
        headers: list[Field] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.length: int | None = None
        """The Content-Length to send where it is not the body's own: of a stream whose length is known (else it is
        sent in chunks), or of the body that a HEAD does not get. -1: none is sent."""
        self.done: Callable[[], None] | None = None
        """Called once, when the last byte was handed to the kernel or the client is gone."""


def header_safe(text: str) -> bytes:
    """Text as a header's value may carry it: one line, printable."""
    return text.encode("ascii", "backslashreplace").replace(b"\r", b" ").replace(b"\n", b" ")
