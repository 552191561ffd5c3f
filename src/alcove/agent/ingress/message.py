"""HTTP/1 messages as they arrive: a head, pieces of a body, an end.

Parsing is llhttp's, strictly: what two parsers could read in two ways (both kinds of length, bare line feeds) is
an error here, so nothing can be smuggled past.
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Any

import httptools
from msgspec import Struct

from alcove.agent.ingress.limits import Limits

READ_BYTES = 64 << 10
Headers = list[tuple[bytes, bytes]]


class Head(Struct):
    """Of a request (`method`, `target`) or a response (`status`)."""

    headers: Headers
    version: str
    keep_alive: bool
    upgrade: bool
    """The other side wants, or has begun, another protocol after this head."""
    method: bytes = b""
    target: bytes = b""
    status: int = 0
    reason: bytes = b""

    def values(self, name: bytes) -> list[bytes]:
        """`name` in lower case."""
        return [value for each, value in self.headers if each.lower() == name]

    @property
    def is_chunked(self) -> bool:
        return bool(self.values(b"transfer-encoding"))

    @property
    def length(self) -> int | None:
        found = self.values(b"content-length")
        return int(found[0]) if found else None


class Mark(Enum):
    END = "end"
    """The message is whole."""
    LOST = "lost"
    """The other side has closed."""


Event = Head | bytes | Mark


class Malformed(Exception):
    """What came is no HTTP; `status` tells the client."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Messages:
    """What one side says, in order, as events."""

    def __init__(self, reader: asyncio.StreamReader, limits: Limits, *, requests: bool) -> None:
        self.reader = reader
        self._limits = limits
        self._requests = requests
        self._events: deque[Event] = deque()
        self._is_lost = False
        self.rest = b""
        """What follows a head that wants another protocol."""
        self.taken = 0
        """Bytes, of all that came."""
        self.begin()

    def begin(self) -> None:
        """Forgets what the message under way was to be: the next byte begins another."""
        self._events.clear()
        kind = httptools.HttpRequestParser if self._requests else httptools.HttpResponseParser
        self._parser: Any = kind(self)
        self._headers: Headers = []
        self._target, self._reason = b"", b""
        self._in_head, self._head_bytes = True, 0

    @property
    def is_quiet(self) -> bool:
        """Nothing of another message has come yet, and it still may."""
        return not self._events and self._head_bytes == 0 and not self._is_lost and not self.reader.at_eof()

    @property
    def has_more(self) -> bool:
        """Whether `next` would not have to wait."""
        return bool(self._events)

    async def next(self, seconds: float) -> Event:
        """Raises TimeoutError, Malformed."""
        while not self._events:
            async with asyncio.timeout(seconds):
                await self._read()
        return self._events.popleft()

    async def _read(self) -> None:
        try:
            data = await self.reader.read(READ_BYTES)
        except OSError:
            data = b""
        if data:
            self.taken += len(data)
            self.feed(data)
        else:
            self._is_lost = True
            self._events.append(Mark.LOST)

    def feed(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.rest = data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, Malformed) else Malformed(400, "malformed") from error
        except httptools.HttpParserError as error:
            raise Malformed(400, str(error)) from error
        # One that never ends; what has come whole was counted by itself.
        if self._in_head and self._head_bytes > 2 * self._limits.head_bytes_max:
            raise Malformed(431, "the head is too large")

    def put_back(self, raw: bytes) -> None:
        """Parses this before what came after it."""
        rest, self.rest = self.rest, b""
        self.begin()
        self.feed(raw + rest)

    # The parser's side

    def on_message_begin(self) -> None:
        self._headers, self._target, self._reason = [], b"", b""
        # Something of it has come, if only behind the end of another.
        self._in_head, self._head_bytes = True, self._head_bytes or 1

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_status(self, part: bytes) -> None:
        self._reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        # After the head come trailers, which go no further.
        if self._in_head:
            if len(self._headers) >= self._limits.headers_max:
                raise Malformed(431, "too many headers")
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        self._in_head = False
        if (
            len(self._target) + sum(len(name) + len(value) for name, value in self._headers)
            > self._limits.head_bytes_max
        ):
            raise Malformed(431, "the head is too large")
        head = Head(
            self._headers, parser.get_http_version(), parser.should_keep_alive(), parser.should_upgrade()
        )
        if self._requests:
            head.method, head.target = parser.get_method(), self._target
        else:
            head.status, head.reason = parser.get_status_code(), self._reason
        self._events.append(head)

    def on_body(self, data: bytes) -> None:
        self._events.append(data)

    def on_message_complete(self) -> None:
        self._events.append(Mark.END)
        self._in_head, self._head_bytes = True, 0
