"""Requests and responses, as the pipeline sees them. No I/O.

A response's body is bytes, or a `Stream` that writes it over time, or, with status 101, a `Takeover`: what the
connection is from then on.
"""

from __future__ import annotations

from asyncio import Transport
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import parse_qsl

import orjson

from alcove.api.errors import ApiError, BadRequest, status
from alcove.apiserver.http.upload import Upload
from alcove.apiserver.identity import Identity

REASONS = {
    101: b"Switching Protocols",
    200: b"OK",
    201: b"Created",
    202: b"Accepted",
    204: b"No Content",
    301: b"Moved Permanently",
    304: b"Not Modified",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    406: b"Not Acceptable",
    409: b"Conflict",
    410: b"Gone",
    413: b"Request Entity Too Large",
    415: b"Unsupported Media Type",
    422: b"Unprocessable Entity",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}

JSON = b"application/json"


class Writer(Protocol):
    """The connection, as a stream writes to it. Bytes are sent as chunks of the response's body."""

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
        """Ends the connection instead of the body: the client is to know that there is more."""
        ...


class Stream(Protocol):
    """A body that is written over time, by calls from the server rather than a task of its own."""

    def start(self, writer: Writer) -> None: ...

    def resume(self) -> None:
        """The client has caught up: `paused` is false again."""
        ...

    def stop(self) -> None:
        """The client is gone or the server stops; nothing may be written any more."""
        ...


class Takeover(Protocol):
    """What a connection is after the 101 that a request asked for: bytes both ways."""

    def start(self, transport: Transport) -> None:
        """The client has been told. It is closed by closing the transport."""
        ...

    def received(self, data: bytes) -> None: ...

    def pause(self) -> None:
        """The client reads too slowly: what is written now is kept in memory."""
        ...

    def resume(self) -> None: ...

    def stop(self) -> None:
        """The client is gone, or never was; nothing may be written any more."""
        ...


class Request:
    """One request. Header names are in lower case; the last of several equal ones counts."""

    __slots__ = (
        "address",
        "body",
        "certificate",
        "headers",
        "impersonation",
        "keep_alive",
        "method",
        "path",
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
        certificate: Identity | ApiError | None = None,
        address: str = "",
        keep_alive: bool = True,
        impersonation: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.method = method
        self.path = path
        self.raw_query = raw_query
        self.headers = headers
        self.body = body
        self.certificate = certificate
        """Whom the connection's client certificate names, or why it is refused; None without one."""
        self.address = address
        self.keep_alive = keep_alive
        self.impersonation = impersonation
        """The Impersonate-* headers, each as often as it was sent."""
        self.upload: Upload | None = None
        """The body, where it is not waited for: `body` is empty then."""

    def query(self) -> dict[str, str]:
        """Query parameters; the first of several equal ones counts, as in Go."""
        if not self.raw_query:
            return {}
        try:
            pairs = parse_qsl(
                self.raw_query, keep_blank_values=True, strict_parsing=False, max_num_fields=100
            )
        except ValueError as error:
            raise BadRequest("the query string has too many parameters: at most 100 are taken") from error
        return dict(reversed(pairs))


class Response:
    __slots__ = ("body", "content_type", "done", "headers", "length", "status")

    def __init__(
        self,
        status: int,
        body: bytes | Stream | Takeover,
        content_type: bytes = JSON,
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.length: int | None = None
        """What is told of the body's length, where that is not what it is: of a stream, if it is known (else it goes in
        chunks); of what a HEAD would have got. -1: nothing is told."""
        self.done: Callable[[], None] | None = None
        """Called once, when the last byte was handed to the kernel or the client is gone."""


def json_response(code: int, value: object) -> Response:
    return Response(code, orjson.dumps(value))


def error_response(error: ApiError) -> Response:
    """The one place where an error becomes a response."""
    response = json_response(error.code, status(error))
    if error.details is not None and error.details.retry_after_seconds:
        response.headers = [(b"Retry-After", str(error.details.retry_after_seconds).encode())]
    if error.code == 401:
        response.headers = [(b"WWW-Authenticate", b'Bearer realm="alcove"')]
    return response


def header_safe(text: str) -> bytes:
    """Text as a header's value may carry it: one line, printable."""
    return text.encode("ascii", "backslashreplace").replace(b"\r", b" ").replace(b"\n", b" ")
