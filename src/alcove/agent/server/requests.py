"""A request to the node, with its path split and its query parsed. Errors are returned as Status objects."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs, unquote

import orjson
from msgspec import Struct

from alcove.api.errors import ApiError, BadRequest, status
from alcove.http.errors import HttpError
from alcove.http.streams import HttpServerStream


class NodeRequest(Struct, frozen=True):
    method: str
    path: tuple[str, ...]
    """The segments, percent-decoded."""
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    """By lower-case name; repeated headers are joined by commas."""

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
            raise BadRequest(f'invalid {name} "{text}": must be a non-negative integer')
        return int(text)


async def read_request(stream: HttpServerStream) -> NodeRequest:
    """Raises BadRequest, EOFError if the client disconnects and TimeoutError if it is too slow."""
    try:
        head = await stream.request()
    except HttpError as error:
        raise BadRequest(str(error)) from error
    path, _, query = head.target.decode("latin-1").partition("?")
    segments = tuple(unquote(segment) for segment in path.strip("/").split("/"))
    parameters = parse_qs(query, keep_blank_values=True)
    return NodeRequest(head.method.decode("ascii"), segments, parameters, head.headers)


async def refuse(stream: HttpServerStream, error: ApiError) -> None:
    await stream.respond(error.code, orjson.dumps(status(error)))
