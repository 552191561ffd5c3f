"""The start of a watch: the existing objects in batches, then the events that arrived meanwhile, in order."""

import asyncio

import orjson
import pytest

from alcove.api import registry
from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import CONFIG_MAPS
from alcove.apiserver import watch
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.negotiate import ResponseForm
from alcove.apiserver.render import ObjectView
from alcove.apiserver.watch import FIRST_AT_ONCE_MAX, PENDING_EVENTS_MAX, Watcher, WatchHub, WatchScope

ACME = TenantId("acme")
COUNT = 5 * FIRST_AT_ONCE_MAX + 7


@pytest.fixture(scope="module")
def view() -> ObjectView:
    kind = registry.load().find("", "v1", "configmaps")
    assert kind is not None
    return ObjectView(kind, ResponseForm.JSON)


class Lines:
    """A writer that records each write."""

    def __init__(self) -> None:
        self.pieces: list[list[tuple[str, str]]] = []
        self.paused = False
        self.closed = False
        self.is_finished = False

    def write(self, data: bytes) -> None:
        lines = [orjson.loads(line) for line in data.splitlines()]
        named = [(line["type"], line["object"].get("metadata", {}).get("name", "")) for line in lines]
        self.pieces.append(named)

    def finish(self) -> None:
        self.is_finished = True

    def abort(self) -> None:
        raise AssertionError("a watch ends, or the client does")

    @property
    def lines(self) -> list[tuple[str, str]]:
        return [line for piece in self.pieces for line in piece]


def entry(name: str, revision: int) -> CacheEntry:
    meta = {"name": name, "namespace": "default", "uid": name}
    body = orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    return CacheEntry(Key(CONFIG_MAPS, ACME, "default", name), Revision(revision), body)


def watcher(hub: WatchHub, view: ObjectView, count: int = COUNT) -> Watcher:
    there = [entry(f"m{number}", number + 1) for number in range(count)]
    end = watch.bookmark(view, Revision(count), initial_end=True)
    return Watcher(
        hub,
        [WatchScope(CONFIG_MAPS, ACME, None)],
        view,
        None,
        initial=[*there, end],
        after=Revision(count),
        revision=lambda: Revision(count),
        seconds_max=60,
        bookmarks=True,
    )


async def run_loop(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_long_initial_list_yields_to_other_tasks(view: ObjectView) -> None:
    writer = Lines()
    watching = watcher(WatchHub(), view)
    watching.start(writer)
    assert len(writer.lines) == FIRST_AT_ONCE_MAX
    await run_loop(10)
    assert max(len(piece) for piece in writer.pieces) <= FIRST_AT_ONCE_MAX
    assert writer.lines == [*(("ADDED", f"m{number}") for number in range(COUNT)), ("BOOKMARK", "")]
    watching.stop()


async def test_events_during_the_initial_list_are_sent_after_it(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view)
    watching.start(writer)
    hub.publish([CacheEvent(CacheEventType.DELETED, entry("m1000", COUNT + 1), entry("m1000", 1001))])
    hub.publish([CacheEvent(CacheEventType.ADDED, entry("new", COUNT + 2), None)])
    await run_loop(10)
    assert writer.lines[COUNT:] == [("BOOKMARK", ""), ("DELETED", "m1000"), ("ADDED", "new")]
    hub.publish([CacheEvent(CacheEventType.ADDED, entry("newer", COUNT + 3), None)])
    assert writer.lines[-1] == ("ADDED", "newer")
    watching.stop()


async def test_a_slow_reader_gets_the_rest_when_it_has_caught_up(view: ObjectView) -> None:
    writer = Lines()
    watching = watcher(WatchHub(), view)
    watching.start(writer)
    writer.paused = True
    await run_loop(10)
    assert len(writer.lines) == FIRST_AT_ONCE_MAX
    writer.paused = False
    watching.resume()
    await run_loop(10)
    assert len(writer.lines) == COUNT + 1
    watching.stop()


async def test_too_much_meanwhile_ends_the_watch(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view)
    watching.start(writer)
    writer.paused = True
    for number in range(PENDING_EVENTS_MAX + 1):
        hub.publish([CacheEvent(CacheEventType.ADDED, entry(f"n{number}", COUNT + 1 + number), None)])
    assert writer.is_finished and writer.lines[-1][0] == "ERROR" and hub.count == 0


async def test_a_stopped_watch_sends_no_more_events(view: ObjectView) -> None:
    writer = Lines()
    watching = watcher(WatchHub(), view)
    watching.start(writer)
    watching.stop()
    await run_loop(10)
    assert len(writer.lines) == FIRST_AT_ONCE_MAX
