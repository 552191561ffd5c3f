"""Decodes the events of a watch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from enum import Enum

import orjson
from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import from_status
from alcove.api.ids import Revision
from alcove.api.objects import Object
from alcove.client.errors import MalformedResponse
from alcove.client.transport import Stream

LINE_BYTES_MAX = 16 << 20
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

    def __init__(self, stream: Stream, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._stream = stream
        self._line_bytes_max = line_bytes_max

    async def batches(self) -> AsyncIterator[Iterator[WatchEvent]]:
        """Batches of events that arrived together; each event is decoded when it is consumed.

        Raises the ApiError that the server sends as an ERROR event (above all Expired), Unreachable if the
        connection breaks, and MalformedResponse.
        """
        rest = b""
        async for chunk in self._stream.chunks():
            lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            rest = lines.pop()
            if max(map(len, (rest, *lines))) > self._line_bytes_max:
                raise MalformedResponse(f"watch event exceeds {self._line_bytes_max} bytes")
            yield (_event(line) for line in lines if line)


def _event(line: bytes) -> WatchEvent:
    try:
        value = orjson.loads(line)
        kind, obj = value["type"], value["object"]
        if kind == "ERROR":
            raise from_status(obj)
        return WatchEvent(_TYPES[kind], obj, revision_of(obj))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise MalformedResponse(f"invalid watch event: {line[:100]!r}") from error
