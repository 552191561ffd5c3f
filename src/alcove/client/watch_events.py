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

    @property
    def revision(self) -> Revision:
        return Revision(int(self.obj["metadata"]["resourceVersion"]))

    @property
    def ends_initial(self) -> bool:
        return self.happened is WatchEventType.BOOKMARK and INITIAL_END in objects.annotations(self.obj)


class Watch:
    """The events of one watch, until the server ends it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def batches(self) -> AsyncIterator[Iterator[WatchEvent]]:
        """Batches of events that arrived together; each event is decoded when it is consumed.

        Raises the ApiError that the server sends as an ERROR event (above all Expired), Unreachable if the
        connection breaks, and MalformedResponse.
        """
        rest = b""
        async for chunk in self._stream.chunks():
            lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            rest = lines.pop()
            if len(rest) > LINE_BYTES_MAX:
                raise MalformedResponse(f"watch event exceeds {LINE_BYTES_MAX} bytes")
            yield (_event(line) for line in lines if line)


def _event(line: bytes) -> WatchEvent:
    try:
        value = orjson.loads(line)
        kind, obj = value["type"], value["object"]
        if kind == "ERROR":
            raise from_status(obj)
        return WatchEvent(_TYPES[kind], obj)
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise MalformedResponse(f"invalid watch event: {line[:100]!r}") from error
