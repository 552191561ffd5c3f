"""The lines of a watch, however the network splits them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import NoReturn

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import Expired, status
from alcove.client import watch_events
from alcove.client.errors import MalformedResponse, Unreachable
from alcove.client.watch_events import Watch, WatchEvent, WatchEventType, refusal_of


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


async def test_an_event_of_more_values_than_allowed_is_not_decoded() -> None:
    """Decoding it would hold up a process that serves all planes."""
    obj = {"metadata": {"name": "x", "resourceVersion": "7"}, "data": [[]] * 1_000}
    text = orjson.dumps({"type": "ADDED", "object": obj}) + b"\n"
    allowed = Watch(Pieces([text]), values_max=3_000)
    assert [event.obj async for batch in allowed.batches() for event in batch] == [obj]
    refused = Watch(Pieces([text]), values_max=1_000)
    with pytest.raises(MalformedResponse, match="more than 1000 values"):
        _ = [event async for batch in refused.batches() for event in batch]


async def test_an_event_of_more_bytes_than_allowed_ends_the_watch_before_it_is_complete() -> None:
    watch = Watch(Pieces([b"x" * 10] * 11), line_bytes_max=100)
    with pytest.raises(MalformedResponse, match="exceeds 100 bytes"):
        _ = [event async for batch in watch.batches() for event in batch]


class Endless(Pieces):
    """A server that refuses a watch and goes on sending."""

    status = 403

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1_000


class Silent(Pieces):
    status = 403

    async def chunks(self) -> AsyncIterator[bytes]:
        await self._forever()
        yield b""

    async def _forever(self) -> NoReturn:
        while True:
            await asyncio.Event().wait()


async def test_a_refusal_without_end_is_read_up_to_a_bound() -> None:
    assert await refusal_of(Pieces([b"no", b"t now"])) == b"not now"
    with pytest.raises(MalformedResponse):
        await refusal_of(Endless([]))


async def test_a_refusal_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_events, "REFUSAL_SECONDS_MAX", 0.01)
    with pytest.raises(Unreachable):
        await refusal_of(Silent([]))
