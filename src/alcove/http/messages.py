"""Requests and responses, and the types of their bodies. No I/O.

A response's body is bytes, or `BodyParts` for a large one, or a `ResponseStream` that writes it over time, or, with
status 101, an `UpgradedConnection` that takes over the connection.
"""

from __future__ import annotations

from asyncio import Transport
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl

from msgspec import Struct

from alcove.http.errors import MalformedMessage

if TYPE_CHECKING:
    from alcove.http.connections import ConnectionSlot
    from alcove.http.upload import RequestUpload

Field = tuple[bytes, bytes]
"""A header field as it is on the wire: name and value."""

JSON = b"application/json"
QUERY_PARAMETERS_MAX = 100
SLICE_BYTES = 256 << 10
"""Large bodies are written in slices of about this size, so that they do not block other connections."""


class KnownHead:
    """Headers that come again on a connection, which are not parsed again."""

    __slots__ = ("facts",)

    def __init__(self) -> None:
        self.facts: object = None
        """For handlers: what they have found out about these headers, so that they need not look again."""


class HttpHead(Struct):
    """The head of a request (`method`, `target`) or of a response (`status`, `reason`)."""

    fields: list[Field]
    """In the order in which they were received."""
    headers: dict[str, str]
    """The same by their names in lower case; repeated ones are joined by commas."""
    version: str
    keep_alive: bool
    upgrade: bool
    """Whether a request asks for another protocol, or a response switches to one."""
    is_chunked: bool = False
    length: int | None = None
    """The Content-Length; None without one."""
    method: bytes = b""
    target: bytes = b""
    status: int = 0
    reason: bytes = b""
    known: KnownHead | None = None
    """Of a request with the headers of the one before."""

    @property
    def has_body(self) -> bool:
        """Whether a request has a body."""
        return self.is_chunked or bool(self.length)

    @property
    def ends_with_connection(self) -> bool:
        """Whether a response (not to HEAD) has a body without a length, which ends with the connection."""
        is_bodiless = self.status < 200 or self.status in (204, 304)
        return not is_bodiless and not self.is_chunked and self.length is None


class ResponseWriter(Protocol):
    """The connection as the target of a response stream."""

    @property
    def paused(self) -> bool:
        """Whether the client reads too slowly: further writes are buffered in memory."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are written but not sent yet."""
        ...

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """End the body; the connection continues with the next request."""
        ...

    def abort(self) -> None:
        """Close the connection instead of ending the body, so that the client knows that it is incomplete."""
        ...


class ResponseStream(Protocol):
    """A body that is written over time, driven by calls from the server instead of a task."""

    def start(self, writer: ResponseWriter) -> None: ...

    def resume(self) -> None:
        """Called when the client has caught up: `paused` is false again."""
        ...

    def stop(self) -> None:
        """Called when the client has disconnected or the server stops; nothing may be written any more."""
        ...


class UpgradedConnection(Protocol):
    """Takes over a connection after a 101 response: bytes in both directions."""

    def start(self, transport: Transport) -> None:
        """Called after the 101 is written. The connection is closed by closing the transport."""
        ...

    def received(self, data: bytes) -> None: ...

    def pause(self) -> None:
        """The client reads too slowly: further writes are buffered in memory."""
        ...

    def resume(self) -> None: ...

    def stop(self) -> None:
        """Called when the client has disconnected, even before `start`; nothing may be written any more."""
        ...


class HttpRequest:
    """One request to a server."""

    __slots__ = (
        "address",
        "body",
        "connection",
        "fields",
        "headers",
        "keep_alive",
        "known_head",
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
        connection: ConnectionSlot | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.raw_query = raw_query
        self.headers = headers
        """By their names in lower case; repeated ones are joined by commas."""
        self.body = body
        self.fields = fields
        """The headers as received."""
        self.peer = peer
        """The result of the server's `identify` for the client's certificate; None without one."""
        self.address = address
        self.keep_alive = keep_alive
        self.connection = connection
        """A handler that authenticates requests calls its `claim`."""
        self.known_head: KnownHead | None = None
        """None unless the headers are those of the request before. Who changes `headers` sets it to None."""
        self.upload: RequestUpload | None = None
        """The body if the request is handled before its body is received; `body` is then empty."""

    @property
    def size(self) -> int:
        """Bytes of the request as received."""
        fields = sum(len(name) + len(value) for name, value in self.fields)
        return len(self.path) + len(self.raw_query) + fields + len(self.body)

    def query(self) -> dict[str, str]:
        """Query parameters; the first of several with the same name is used, as in Go. Raises
        MalformedMessage."""
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


class BodyParts:
    """A large body, which is put together while it is sent: it is never in memory as a whole."""

    __slots__ = ("_length", "_parts", "_separator")

    def __init__(self, parts: Sequence[bytes], separator: bytes = b"") -> None:
        """The body is `separator.join(parts)`."""
        self._parts = parts
        self._separator = separator
        self._length = sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0)

    def __len__(self) -> int:
        return self._length

    def slices(self) -> Iterator[bytes | memoryview]:
        """The body in slices of about SLICE_BYTES; a large part is not copied."""
        joined: list[bytes] = []
        size = 0
        for part in self._parts:
            if len(part) > SLICE_BYTES:
                if joined:
                    yield self._separator.join([*joined, b""])
                yield from slices(part)
                joined, size = [b""], 0
                continue
            joined.append(part)
            size += len(part)
            if size >= SLICE_BYTES:
                yield self._separator.join(joined)
                joined, size = [b""], 0
        if joined != [b""]:
            yield self._separator.join(joined)

    def __bytes__(self) -> bytes:
        return self._separator.join(self._parts)


WHOLE_BODIES = (bytes, BodyParts)
"""The types of bodies whose length is known."""


def slices(body: bytes) -> Iterator[memoryview]:
    view = memoryview(body)
    for start in range(0, len(view), SLICE_BYTES):
        yield view[start : start + SLICE_BYTES]


class HttpResponse:
    """One response of a server."""

    __slots__ = ("body", "content_type", "done", "headers", "length", "status")

    def __init__(
        self,
        status: int,
        body: bytes | BodyParts | ResponseStream | UpgradedConnection,
        content_type: bytes = JSON,
        headers: list[Field] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.length: int | None = None
        """The Content-Length to send if it is not that of `body`: of a stream whose length is known
        (otherwise it is sent in chunks), or of the body that the response to a HEAD omits. -1 sends none."""
        self.done: Callable[[], None] | None = None
        """Called once, when the response is sent but for a small part, or the client has disconnected."""


def header_safe(text: str) -> bytes:
    """The text in a form that is valid as a header's value: one line of ASCII."""
    return text.encode("ascii", "backslashreplace").replace(b"\r", b" ").replace(b"\n", b" ")
