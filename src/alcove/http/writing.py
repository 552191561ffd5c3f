"""Serializes messages to bytes."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus

from alcove.http.messages import Field, HttpResponse

RequestHeaders = Mapping[str, str] | Sequence[tuple[str, str]]
"""Names and values; as pairs if a name has several values."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
CONTENT_LENGTH = b"\r\nContent-Length: "
CONTENT_TYPE = b"\r\nContent-Type: "

REASONS: dict[int, bytes] = {status.value: status.phrase.encode() for status in HTTPStatus}
# Names that Go uses, and newer ones that Python 3.11's standard library does not have.
REASONS |= {413: b"Request Entity Too Large", 418: b"I'm a teapot", 422: b"Unprocessable Entity"}


def status_line(status: int, reason: bytes | None = None) -> bytes:
    """The status line without its line end. `reason` None stands for the usual one."""
    return b"HTTP/1.1 %d %b" % (status, REASONS.get(status, b"Status") if reason is None else reason)


_CACHE = b"\r\nCache-Control: no-cache, private"
_FIRST_LINES = {status: status_line(status) + _CACHE for status in REASONS}


def first_lines(status: int) -> bytes:
    """The status line and the fields that all responses of a server have, without the last line end."""
    return _FIRST_LINES.get(status) or status_line(status) + _CACHE


def last_response(response: HttpResponse) -> bytes:
    """A whole response with a body of bytes, after which the connection is closed."""
    assert isinstance(response.body, bytes)
    head = first_lines(response.status) + CONTENT_TYPE + response.content_type
    length = CONTENT_LENGTH + str(len(response.body)).encode()
    return head + length + b"\r\nConnection: close\r\n\r\n" + response.body


def head(first: bytes, fields: Iterable[Field]) -> bytes:
    """A message's head: `first` is its request line or status line."""
    return b"\r\n".join([first, *(name + b": " + value for name, value in fields), b"", b""])


def request_head(method: str, target: str, headers: RequestHeaders) -> bytes:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def response_head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return status_line(status) + "\r\n".join(["", *lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One chunk of a body; `data` is not empty, as an empty chunk would be the last."""
    return b"%x\r\n%b\r\n" % (len(data), data)
