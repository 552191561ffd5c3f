"""Bytes to messages. The only module that uses httptools, whose parser is llhttp in its strict mode.

A message that two parsers could read differently is rejected, by servers and clients alike: both kinds of
length, repeated lengths or hosts, bare line feeds, transfer codings other than `chunked`, versions other than
1.0 and 1.1. Trailers are dropped. All data outside of bodies is bounded, also between the chunks of a body
and after it.

Clients send the same headers with each request. A server keeps those of a connection's last GET: if the bytes after the
next one's target are the same, they are not parsed again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import httptools
from msgspec import Struct

from alcove.http.errors import HeadTooLarge, MalformedMessage
from alcove.http.limits import HttpLimits
from alcove.http.messages import Field, HttpHead, KnownHead

_VERSIONS = ("1.1", "1.0")
_UPGRADE_FIELDS = frozenset((b"connection", b"upgrade", b"http2-settings"))

LAST_HEAD_BYTES_MAX = 2 << 10
"""Longer heads are not kept for the next request of their connection."""
_HEAD_END = b"\r\n\r\n"
_AFTER_TARGET = b" HTTP/1.1\r\n"
_PLAIN_GET = re.compile(rb"GET (/[A-Za-z0-9/_.:~%?=&,+-]*)")
"""Up to the end of the target. Targets with other characters are parsed as usual."""


class MessageSink(Protocol):
    """Receives the parser's events, in this order for each message. May raise HttpError."""

    def head_received(self, head: HttpHead) -> None: ...

    def body_received(self, data: bytes) -> None: ...

    def message_ended(self) -> None: ...


class _LastHead(Struct, frozen=True):
    """Of a GET without a body, after which the connection is kept."""

    tail: bytes
    """All that follows the target."""
    fields: list[Field]
    headers: dict[str, str]
    known: KnownHead


class HttpParser:
    __slots__ = (
        "_fed_bytes",
        "_fields",
        "_head_bytes_max",
        "_headers_max",
        "_in_head",
        "_interim",
        "_interim_max",
        "_is_replayed",
        "_last_head",
        "_parser",
        "_reason",
        "_requests",
        "_sink",
        "_tail",
        "_target",
        "_uncounted_bytes",
        "is_bodiless",
        "unread_bytes",
    )

    def __init__(self, sink: MessageSink, limits: HttpLimits, *, requests: bool) -> None:
        self._sink = sink
        self._head_bytes_max = limits.head_bytes_max
        self._headers_max = limits.headers_max
        self._interim_max = limits.interim_responses_max
        self._requests = requests
        self._fed_bytes = 0
        self._interim = 0
        self._last_head: _LastHead | None = None
        self._tail = b""
        """If the data being parsed is nothing but the head of a GET: all that follows its target."""
        self.is_bodiless = False
        """Whether the next final response is to a HEAD: its head describes a body that is not sent."""
        self.restart()

    def restart(self) -> None:
        """Drop the current message: the next byte begins another one."""
        kind = httptools.HttpRequestParser if self._requests else httptools.HttpResponseParser
        self._parser: Any = kind(self)
        self._fields: list[Field] = []
        self._target, self._reason = b"", b""
        self._in_head = True
        self._is_replayed = False
        self.unread_bytes = 0
        """Consecutive bytes that are not body, counted by whole reads; 0 between two messages."""
        self._uncounted_bytes = 0
        """Bytes that arrived with the beginning of this message, and may belong to it."""

    @property
    def partial_bytes(self) -> int:
        """Size of a head, or of other data that is not body, that was received in part: not less than it is."""
        return self.unread_bytes + self._uncounted_bytes if self.unread_bytes else 0

    @property
    def is_idle(self) -> bool:
        """Whether no byte of the next message was received."""
        return self._in_head and not self.unread_bytes

    @property
    def is_in_head(self) -> bool:
        """Whether the head of the next message was received in part."""
        return self._in_head and self.unread_bytes > 0

    def feed(self, data: bytes) -> bytes | None:
        """Parse `data` and pass its messages to the sink.

        Returns None, or the bytes after a message that ends HTTP on this connection (a request to upgrade, a
        101); they belong to the next protocol, or to a further message if the upgrade is declined. Raises
        HttpError; the connection cannot be parsed any further then.
        """
        if self._requests and self._in_head and not self.unread_bytes:
            last = self._last_head
            if last is not None and data.endswith(last.tail) and len(data) <= self._head_bytes_max:
                beginning = _PLAIN_GET.fullmatch(data, 0, len(data) - len(last.tail))
                if beginning is not None:
                    self._repeat(last, beginning[1])
                    return None
            self._tail = _tail(data)
        self._fed_bytes = len(data)
        self.unread_bytes += self._fed_bytes
        rest: bytes | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(error, httptools.HttpParserCallbackError) and cause is not None:
                raise cause from None
            raise MalformedMessage(f"malformed HTTP message: {error}") from error
        if rest is not None:
            return self._replay(rest) if self._is_replayed else self._upgraded(rest)
        if self.unread_bytes > self._head_bytes_max:
            raise self._too_large()
        if self.is_bodiless and not self._in_head:
            self._end_bodiless()
        return None

    def _repeat(self, last: _LastHead, target: bytes) -> None:
        """Pass on a request whose headers are those of the last one."""
        head = HttpHead(last.fields, last.headers.copy(), "1.1", True, False, False, None, b"GET", target)
        head.known = last.known
        self._sink.head_received(head)
        self._sink.message_ended()

    def close(self) -> None:
        """Release the parser. httptools' parser, this one and the sink refer to each other: without this,
        they would wait for the garbage collector."""
        del self._parser, self._sink

    def _upgraded(self, rest: bytes) -> bytes:
        self.restart()
        return rest

    def _replay(self, rest: bytes) -> bytes | None:
        """Parse a request that has a body and offers h2c (curl does) again without the offer: llhttp would
        take its body for bytes of the next protocol, or for a request. A server may ignore an upgrade (RFC
        9110, 7.8)."""
        retained = [field for field in self._fields if field[0].lower() not in _UPGRADE_FIELDS]
        first = b"%b %b HTTP/%b" % (
            self._parser.get_method(),
            self._target,
            self._parser.get_http_version().encode(),
        )
        if not self._parser.should_keep_alive():
            retained.append((b"Connection", b"close"))
        lines = [first, *(b"%b: %b" % field for field in retained), b"", b""]
        self.restart()
        return self.feed(b"\r\n".join(lines) + rest)

    def _end_bodiless(self) -> None:
        self.is_bodiless = False
        self.restart()
        self._sink.message_ended()

    def _too_large(self) -> HeadTooLarge:
        return HeadTooLarge(
            f"request line and headers may have at most {self._head_bytes_max} bytes"
            if self._requests
            else f"the response has more than {self._head_bytes_max} bytes of headers"
        )

    # Called by httptools

    def on_message_begin(self) -> None:
        self._fields = []
        self._target, self._reason = b"", b""
        self._uncounted_bytes = 0
        if not self.unread_bytes:
            # Its first bytes arrived with the end of another message, and were counted there.
            self.unread_bytes, self._uncounted_bytes = 1, self._fed_bytes

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_status(self, part: bytes) -> None:
        self._reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        # Now, as each field takes a hundred bytes, and may have been sent in four.
        if len(self._fields) >= self._headers_max:
            raise HeadTooLarge(f"at most {self._headers_max} headers are accepted")
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        fields, parser = self._fields, self._parser
        if max(self.unread_bytes, self._fed_bytes) > self._head_bytes_max:
            self._check_size()
        # Names are ASCII: llhttp accepts no others.
        headers = {name.lower().decode(): value.decode("latin-1") for name, value in fields}
        if len(headers) != len(fields):
            headers = combined(fields)
        version = parser.get_http_version()
        is_chunked = "transfer-encoding" in headers
        if is_chunked or version != "1.1":
            self._check_framing(headers, version)
        length = int(headers["content-length"]) if "content-length" in headers else None
        head = HttpHead(
            fields, headers, version, parser.should_keep_alive(), parser.should_upgrade(), is_chunked, length
        )
        if not self._requests:
            head.status, head.reason = parser.get_status_code(), self._reason
            self._count_interim(head.status)
        elif version == "1.1" and "host" not in headers:
            raise MalformedMessage("malformed HTTP message: missing required Host header")
        elif head.upgrade and head.has_body:
            if headers.get("upgrade", "").lower() != "h2c":
                raise MalformedMessage("malformed HTTP message: a request to upgrade has a body")
            self._is_replayed = True
            return
        else:
            head.method, head.target = parser.get_method(), self._target
            self._keep(head)
        self._in_head = False
        self.unread_bytes = 0
        self._fields = []  # Trailers, which are dropped.
        self._sink.head_received(head)

    def on_body(self, data: bytes) -> None:
        if self.is_bodiless:
            raise MalformedMessage("a response to HEAD has a body")
        self.unread_bytes = 0
        self._sink.body_received(data)

    def on_message_complete(self) -> None:
        if self._is_replayed:
            return
        self._in_head = True
        self.unread_bytes = 0
        self._sink.message_ended()

    def _keep(self, head: HttpHead) -> None:
        """Keep the headers for the next request. Only of the last one: what was parsed between might end HTTP."""
        tail, self._tail = self._tail, b""
        if not tail or head.length is not None or head.is_chunked or head.upgrade or not head.keep_alive:
            self._last_head = None
        else:
            # A copy: handlers may change the headers.
            self._last_head = _LastHead(tail, head.fields, head.headers.copy(), KnownHead())

    # Checks of a head

    def _check_size(self) -> None:
        size = len(self._target) + sum(len(name) + len(value) for name, value in self._fields)
        if size > self._head_bytes_max:
            raise self._too_large()

    def _check_framing(self, headers: dict[str, str], version: str) -> None:
        if version not in _VERSIONS:
            raise MalformedMessage(f"HTTP/{version} is not supported", 505)
        coding = headers.get("transfer-encoding")
        if coding is None:
            return
        if coding.strip().lower() != "chunked":
            raise MalformedMessage(f'transfer encoding "{coding}" is not supported', 501)
        if self._requests and version == "1.0":
            raise MalformedMessage("malformed HTTP message: chunks in HTTP/1.0")

    def _count_interim(self, status: int) -> None:
        if status >= 200 or status == 101:
            self._interim = 0
            return
        self._interim += 1
        if self._interim > self._interim_max:
            raise MalformedMessage("too many interim responses")


def _tail(data: bytes) -> bytes:
    """What follows the target, if `data` is one head of a GET and nothing else, and not long; else empty."""
    if not data.startswith(b"GET ") or len(data) > LAST_HEAD_BYTES_MAX:
        return b""
    if data.find(_HEAD_END) != len(data) - len(_HEAD_END):
        return b""
    return data[data.find(_AFTER_TARGET) :] if _AFTER_TARGET in data else b""


def combined(fields: Sequence[Field]) -> dict[str, str]:
    """Fields by their names in lower case; repeated ones are joined by commas, which is equivalent (RFC 9110,
    5.3). Raises MalformedMessage for a repeated Host."""
    headers: dict[str, str] = {}
    for name, value in fields:
        key, text = name.lower().decode(), value.decode("latin-1")
        if key in headers:
            if key == "host":
                raise MalformedMessage("malformed HTTP message: more than one Host header")
            text = f"{headers[key]}{'; ' if key == 'cookie' else ', '}{text}"
        headers[key] = text
    return headers
