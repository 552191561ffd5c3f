"""One HTTP/1.1 request per connection, over asyncio's streams: read its head, answer, or turn it into something else.

Only the API server calls here, and it makes a connection for every stream: there is nothing to reuse.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import parse_qs, unquote

import httptools
import orjson
from msgspec import Struct

from alcove.api.errors import ApiError, BadRequest, status

HEAD_BYTES_MAX = 64 << 10
HEAD_SECONDS_MAX = 10.0
READ_BYTES = 64 << 10
WRITE_BUFFER_BYTES_MAX = 64 << 10

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_TEXTS = {101: "Switching Protocols", 200: "OK"}


class Request(Struct, frozen=True):
    method: str
    path: tuple[str, ...]
    """Its segments, unquoted."""
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    """Names in lower case; several of one name are joined by commas."""

    def first(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        return self.first(name) in ("true", "1")

    def number(self, name: str) -> int | None:
        """Raises BadRequest."""
        text = self.first(name)
        if not text:
            return None
        if not text.isascii() or not text.isdigit():
            raise BadRequest(f'{name}: "{text}" is not a number')
        return int(text)


class _Head:
    """What httptools tells of a request's head."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[str, str] = {}

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text


async def read_request(reader: StreamReader) -> Request:
    """Raises BadRequest, and what a connection that ends or dawdles raises: TimeoutError, EOFError."""
    try:
        async with asyncio.timeout(HEAD_SECONDS_MAX):
            data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise BadRequest(f"the request's head has more than {HEAD_BYTES_MAX} bytes") from error
    head = _Head()
    parser = httptools.HttpRequestParser(head)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise BadRequest(f"malformed HTTP request: {error}") from error
    path, _, query = head.url.decode("latin-1").partition("?")
    segments = tuple(unquote(segment) for segment in path.strip("/").split("/"))
    return Request(
        parser.get_method().decode("ascii"), segments, parse_qs(query, keep_blank_values=True), head.headers
    )


class Wire(Protocol):
    """Bytes both ways, once the protocol on a connection was agreed on."""

    async def read(self) -> bytes:
        """Empty when the other side has ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more. Raises ConnectionError."""
        ...


class Connection:
    """A client's connection. A `Wire`, once an answer has made it one."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.reader = reader
        self._writer = writer
        self.is_answered = False
        writer.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)

    async def read(self) -> bytes:
        try:
            return await self.reader.read(READ_BYTES)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def switch(self, headers: Mapping[str, str]) -> None:
        """From here on the connection speaks what the headers say."""
        await self._head(101, headers)

    def reset(self) -> None:
        """Ends the connection so that the client knows that there should be more."""
        found = self._writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._writer.transport.abort()

    async def answer(self, code: int, body: bytes, content_type: str = "application/json") -> None:
        headers = {"Content-Type": content_type, "Content-Length": str(len(body)), "Connection": "close"}
        await self._head(code, headers)
        await self.write(body)

    async def refuse(self, error: ApiError) -> None:
        await self.answer(error.code, orjson.dumps(status(error)))

    async def begin(self, content_type: str) -> None:
        """An answer whose body comes by `chunk`, and ends with `end`."""
        await self._head(
            200, {"Content-Type": content_type, "Transfer-Encoding": "chunked", "Connection": "close"}
        )

    async def chunk(self, data: bytes) -> None:
        if data:
            await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.write(b"0\r\n\r\n")

    async def _head(self, code: int, headers: Mapping[str, str]) -> None:
        self.is_answered = True
        lines = [f"HTTP/1.1 {code} {_TEXTS.get(code, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
