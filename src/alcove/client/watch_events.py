"""Decodes the events of a watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from enum import Enum

import orjson
from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import BadRequest, TooLarge, from_status
from alcove.api.ids import Revision
from alcove.api.objects import Object
from alcove.api.schema import body as bodies
from alcove.client.errors import MalformedResponse, Unreachable
from alcove.client.transport import Stream

LINE_BYTES_MAX = 16 << 20
REFUSAL_BYTES_MAX = 64 << 10
REFUSAL_SECONDS_MAX = 10.0
"""What is read of a server's answer that refuses a watch, and for how long."""
INITIAL_END = "k8s.io/initial-events-end"
_REVISION_DIGITS_MAX = 19
"""Of a signed number of 64 bits, which stores have."""


def revision_of(obj: Object) -> Revision:
    """Raises MalformedResponse if the object has none."""
    text = objects.get(obj, "metadata", "resourceVersion")
    if (
        not isinstance(text, str)
        or not (text.isascii() and text.isdigit())
        or len(text) > _REVISION_DIGITS_MAX
    ):
        raise MalformedResponse("an object without a valid resourceVersion")
    return Revision(int(text))


class WatchEventType(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


_TYPES = {each.value: each for each in WatchEventType}


class WatchEvent(Struct, frozen=True):
    happened: WatchEventType
    obj: Object
    """For a BOOKMARK only a resourceVersion, and the annotation `k8s.io/initial-events-end` if it ends the
    initial events."""
    revision: Revision

    @property
    def ends_initial(self) -> bool:
        return self.happened is WatchEventType.BOOKMARK and INITIAL_END in objects.annotations(self.obj)


class Watch:
    """The events of one watch, until the server ends it."""

    def __init__(
        self, stream: Stream, line_bytes_max: int = LINE_BYTES_MAX, values_max: int | None = None
    ) -> None:
        """`values_max`: values (strings, numbers, lists, maps) of an event; None if they need not be counted."""
        self._stream = stream
        self._line_bytes_max = line_bytes_max
        self._values_max = values_max

    async def batches(self) -> AsyncIterator[Iterator[WatchEvent]]:
        """Batches of events that arrived together; each event is decoded when it is consumed.

        Raises the ApiError that the server sends as an ERROR event (above all Expired), Unreachable if the
        connection breaks, and MalformedResponse.
        """
        rest: list[bytes] = []
        rest_bytes = 0
        async for chunk in self._stream.chunks():
            lines: list[bytes] = []
            if b"\n" in chunk:
                lines = b"".join((*rest, chunk)).split(b"\n")
                rest, rest_bytes, chunk = [], 0, lines.pop()
            rest.append(chunk)
            rest_bytes += len(chunk)
            if max(rest_bytes, *map(len, lines), 0) > self._line_bytes_max:
                raise MalformedResponse(f"watch event exceeds {self._line_bytes_max} bytes")
            yield (_event(line, self._values_max) for line in lines if line)


async def refusal_of(stream: Stream) -> bytes:
    """The body of an answer that refuses a watch. Raises Unreachable and MalformedResponse."""
    body = b""
    try:
        async with asyncio.timeout(REFUSAL_SECONDS_MAX):
            async for chunk in stream.chunks():
                body += chunk
                if len(body) > REFUSAL_BYTES_MAX:
                    raise MalformedResponse(f"a refusal of more than {REFUSAL_BYTES_MAX} bytes")
    except TimeoutError as error:
        raise Unreachable(f"no complete refusal within {REFUSAL_SECONDS_MAX:g} s", sent=True) from error
    return body


def check_values(text: bytes, values_max: int | None) -> None:
    """Raises MalformedResponse if the JSON text has more values than that, or is nested too deeply. Decoding holds up the whole
    process, by the number of values more than by their bytes."""
    try:
        if values_max is not None:
            bodies.check_values(text, values_max)
    except (BadRequest, TooLarge) as error:
        raise MalformedResponse(f"the response has more than {values_max} values") from error


def _event(line: bytes, values_max: int | None) -> WatchEvent:
    check_values(line, values_max)
    try:
        value = orjson.loads(line)
        kind, obj = value["type"], value["object"]
        if kind == "ERROR":
            raise from_status(obj)
        return WatchEvent(_TYPES[kind], obj, revision_of(obj))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise MalformedResponse(f"invalid watch event: {line[:100]!r}") from error
