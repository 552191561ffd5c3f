"""The lines of a watch, however the network splits them."""

from collections.abc import AsyncIterator, Mapping

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import Expired, status
from alcove.client.errors import MalformedResponse
from alcove.client.watch_events import Watch, WatchEvent, WatchEventType


class Pieces:
    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def events(*pieces: bytes) -> list[WatchEvent]:
    return [event async for batch in Watch(Pieces(list(pieces))).batches() for event in batch]


def line(kind: str, name: str) -> bytes:
    obj = {"metadata": {"name": name, "resourceVersion": "7"}}
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


@given(st.lists(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]), max_size=8), st.data())
def test_lines_come_whole_wherever_they_are_cut(kinds: list[str], data: st.DataObject) -> None:
    import asyncio

    whole = b"".join(line(kind, f"ü{number}") for number, kind in enumerate(kinds))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    got = asyncio.run(events(*pieces))
    assert [event.happened.value for event in got] == kinds
    assert [event.obj["metadata"]["name"] for event in got] == [f"ü{number}" for number in range(len(kinds))]


async def test_an_error_is_raised_as_itself() -> None:
    error = orjson.dumps({"type": "ERROR", "object": status(Expired("too old"))}) + b"\n"
    with pytest.raises(Expired, match="too old"):
        await events(error)


@pytest.mark.parametrize("odd", [b"{}\n", b"nonsense\n", b'{"type":"NEW","object":{}}\n', b"[]\n"])
async def test_other_lines_are_malformed(odd: bytes) -> None:
    with pytest.raises(MalformedResponse):
        await events(odd)


async def test_bookmarks() -> None:
    end = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    got = await events(orjson.dumps({"type": "BOOKMARK", "object": end}) + b"\n", line("BOOKMARK", ""))
    assert [event.ends_initial for event in got] == [True, False]
    assert got[0].revision == 9 and got[0].happened is WatchEventType.BOOKMARK
