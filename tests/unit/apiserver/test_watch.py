"""The start of a watch: the existing objects in batches, then the events that arrived meanwhile, in order."""

import asyncio

import orjson
import pytest

from alcove.api import registry
from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.resources import CONFIG_MAPS
from alcove.apiserver import watch_events, watch_hub
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType, indexed_value
from alcove.apiserver.negotiate import ResponseForm
from alcove.apiserver.render import ObjectView
from alcove.apiserver.watch import (
    FIRST_AT_ONCE_MAX,
    PENDING_BYTES_MAX,
    PENDING_EVENTS_MAX,
    WRITE_BYTES_MAX,
    Watcher,
)
from alcove.apiserver.watch_hub import WatchHub, WatchScope

ACME = TenantId("acme")
VPC_ENDPOINTS = GroupResource("mizar.com", "endpoints")
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
        self.sizes: list[int] = []
        self._begun = b""
        self.paused = False
        self.closed = False
        self.is_finished = False
        self.buffered_bytes = 0

    def write(self, data: bytes) -> None:
        self.sizes.append(len(data))
        *whole, self._begun = (self._begun + data).split(b"\n")
        lines = [orjson.loads(line) for line in whole]
        named = [(line["type"], line["object"].get("metadata", {}).get("name", "")) for line in lines]
        self.pieces.append(named)

    def finish(self) -> None:
        self.is_finished = True

    def abort(self) -> None:
        raise AssertionError("a watch ends, or the client does")

    @property
    def lines(self) -> list[tuple[str, str]]:
        return [line for piece in self.pieces for line in piece]


def entry(name: str, revision: int, size: int = 0) -> CacheEntry:
    meta = {"name": name, "namespace": "default", "uid": name}
    data = {"data": {"x": "y" * size}} if size else {}
    body = orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, **data})
    return CacheEntry(Key(CONFIG_MAPS, ACME, "default", name), Revision(revision), body)


def watcher(
    hub: WatchHub, view: ObjectView, count: int = COUNT, tenant: TenantId = ACME, size: int = 0
) -> Watcher:
    there = [entry(f"m{number}", number + 1, size) for number in range(count)]
    end = watch_events.bookmark(view, Revision(count), initial_end=True)
    return Watcher(
        hub,
        [WatchScope(CONFIG_MAPS, ACME, None)],
        view,
        None,
        tenant=tenant,
        initial=[*there, end],
        after=Revision(count),
        revision=lambda: Revision(count),
        seconds_max=60,
        bookmarks=True,
    )


def endpoint(number: int, vni: int) -> CacheEntry:
    spec = {"droplet": f"n{number % 10}", "vni": vni, "net": f"s{vni % 10}"}
    body = orjson.dumps(
        {"apiVersion": "v1", "kind": "Endpoint", "metadata": {"name": f"e{number}"}, "spec": spec}
    )
    return CacheEntry(Key(VPC_ENDPOINTS, SYSTEM, "", f"e{number}"), Revision(number), body)


@pytest.mark.parametrize("networks", [10, 100])
async def test_an_endpoint_is_offered_only_to_watches_of_its_network_node_or_subnet(
    networks: int, view: ObjectView
) -> None:
    hub = WatchHub()
    for field, count in (("spec.droplet", 10), ("spec.vni", networks), ("spec.net", 10)):
        letter = {"spec.droplet": "n", "spec.vni": "", "spec.net": "s"}[field]
        for number in range(count):
            watching = watcher(hub, view, count=0)
            value = indexed_value(VPC_ENDPOINTS, {field: f"{letter}{number}"})
            watching.scopes = [WatchScope(VPC_ENDPOINTS, SYSTEM, None, None, value)]
            hub.add(watching)
    moved = CacheEvent(CacheEventType.MODIFIED, endpoint(7, vni=5), endpoint(7, vni=4))
    offered = list(hub._interested(moved))
    assert len(offered) == 5  # By its node, and by both of its networks and subnets.


@pytest.fixture(autouse=True)
def one_write_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast the machine is, one watcher writes in one iteration of the loop."""
    monkeypatch.setattr(watch_hub, "SLICE_SECONDS", 0.0)


async def settled(hub: WatchHub) -> None:
    while not hub.is_idle:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)


async def test_a_long_initial_list_yields_to_other_tasks(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view)
    watching.start(writer)
    await settled(hub)
    assert max(len(piece) for piece in writer.pieces) <= FIRST_AT_ONCE_MAX
    assert writer.lines == [*(("ADDED", f"m{number}") for number in range(COUNT)), ("BOOKMARK", "")]
    watching.stop()


@pytest.mark.parametrize("size", [300, 1_000, WRITE_BYTES_MAX, 3 * WRITE_BYTES_MAX])
async def test_an_initial_list_of_large_objects_is_sent_to_its_end(view: ObjectView, size: int) -> None:
    """Whatever was left of a slice was written, and the watch then waited for the next event, or for ever."""
    hub, lines, count = WatchHub(), Lines(), 600
    watcher(hub, view, count, size=size).start(lines)
    await settled(hub)
    assert [name for _, name in lines.lines] == [*(f"m{number}" for number in range(count)), ""]


async def test_a_large_event_is_written_in_parts_between_which_others_are_served(view: ObjectView) -> None:
    hub, writer, other = WatchHub(), Lines(), Lines()
    watching, quiet = watcher(hub, view, count=0), watcher(hub, view, count=0, tenant=TenantId("globex"))
    quiet.scopes = [WatchScope(CONFIG_MAPS, TenantId("globex"), None)]
    for each, its in (watching, writer), (quiet, other):
        each.start(its)
    await settled(hub)
    hub.publish([CacheEvent(CacheEventType.ADDED, large("m", 1), None)])
    key = Key(CONFIG_MAPS, TenantId("globex"), "default", "q")
    hub.publish([CacheEvent(CacheEventType.ADDED, CacheEntry(key, Revision(2), entry("q", 2).body), None)])
    while ("ADDED", "q") not in other.lines:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)
    assert ("ADDED", "m") not in writer.lines
    await settled(hub)
    assert writer.lines[-1] == ("ADDED", "m") and max(writer.sizes) <= WRITE_BYTES_MAX
    watching.stop()
    quiet.stop()


async def test_a_watch_that_ends_in_the_middle_of_an_event_sends_the_rest_of_it_first(
    view: ObjectView,
) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view, count=0)
    watching.start(writer)
    await settled(hub)
    hub.publish([CacheEvent(CacheEventType.ADDED, large("m", 1), None)])
    hub.publish([CacheEvent(CacheEventType.ADDED, entry("n", 2), None)])
    watching.expire()
    assert [kind for kind, _ in writer.lines[-2:]] == ["ADDED", "ERROR"] and writer.is_finished
    assert hub.buffers.total == 0


async def test_many_events_at_once_do_not_end_the_watch_of_a_client_that_reads(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view, count=0)
    watching.start(writer)
    await settled(hub)
    count = 2 * PENDING_EVENTS_MAX
    hub.publish(
        [CacheEvent(CacheEventType.ADDED, entry(f"m{number}", number + 1), None) for number in range(count)]
    )
    await settled(hub)
    assert len(writer.lines) == count + 1 and not writer.is_finished
    watching.stop()


async def test_events_during_the_initial_list_are_sent_after_it(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view)
    watching.start(writer)
    hub.publish([CacheEvent(CacheEventType.DELETED, entry("m1000", COUNT + 1), entry("m1000", 1001))])
    hub.publish([CacheEvent(CacheEventType.ADDED, entry("new", COUNT + 2), None)])
    await settled(hub)
    assert writer.lines[COUNT:] == [("BOOKMARK", ""), ("DELETED", "m1000"), ("ADDED", "new")]
    hub.publish([CacheEvent(CacheEventType.ADDED, entry("newer", COUNT + 3), None)])
    assert writer.lines[-1] == ("ADDED", "newer")
    watching.stop()


async def test_a_slow_reader_gets_the_rest_when_it_has_caught_up(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view)
    watching.start(writer)
    await asyncio.sleep(0)
    writer.paused = True
    await settled(hub)
    assert len(writer.lines) == FIRST_AT_ONCE_MAX
    writer.paused = False
    watching.resume()
    await settled(hub)
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


async def test_a_tenant_that_writes_much_while_ring0_lists_does_not_make_it_list_again(
    view: ObjectView,
) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view, tenant=SYSTEM)
    watching.start(writer)
    writer.paused = True
    for number in range(3 * PENDING_EVENTS_MAX):
        hub.publish([CacheEvent(CacheEventType.ADDED, entry(f"n{number}", COUNT + 1 + number), None)])
    assert not writer.is_finished
    writer.paused = False
    watching.resume()
    await settled(hub)
    assert len(writer.lines) == COUNT + 1 + 3 * PENDING_EVENTS_MAX
    watching.stop()


async def test_a_stopped_watch_sends_no_more_events(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view)
    watching.start(writer)
    await asyncio.sleep(0)
    watching.stop()
    await settled(hub)
    assert len(writer.lines) == FIRST_AT_ONCE_MAX


def large(name: str, revision: int) -> CacheEntry:
    body = b'{"metadata":{"name":"%b"},"data":"%b"}' % (name.encode(), b"x" * (1 << 20))
    return CacheEntry(Key(CONFIG_MAPS, ACME, "default", name), Revision(revision), body)


async def test_few_large_events_end_a_watch_that_is_not_read(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watcher(hub, view, 1).start(writer)
    await settled(hub)
    writer.paused = True
    for revision in range(2, 12):
        hub.publish([CacheEvent(CacheEventType.ADDED, large(f"n{revision}", revision), None)])
        assert hub.buffers.of(ACME) <= PENDING_BYTES_MAX + (2 << 20)
    assert writer.is_finished and writer.lines[-1][0] == "ERROR"
    assert (hub.count, hub.buffers.total) == (0, 0)


async def test_what_a_slow_watch_holds_is_counted_until_it_is_read(view: ObjectView) -> None:
    hub, writer = WatchHub(), Lines()
    watching = watcher(hub, view, 1)
    watching.start(writer)
    await settled(hub)
    writer.paused = True
    hub.publish([CacheEvent(CacheEventType.ADDED, large("n", 2), None)])
    assert hub.buffers.of(ACME) > 1 << 20
    writer.paused = False
    watching.resume()
    await settled(hub)
    assert hub.buffers.total == 0 and writer.lines[-1] == ("ADDED", "n")
    watching.stop()


async def test_too_many_watches_of_a_tenant_are_refused(view: ObjectView) -> None:
    hub = WatchHub(per_tenant_max=2)
    watching = [watcher(hub, view, 1) for _ in range(2)]
    for each in watching:
        hub.check(ACME)
        each.start(Lines())
    with pytest.raises(TooManyRequests):
        hub.check(ACME)
    hub.check(TenantId("other"))
    watching[0].stop()
    hub.check(ACME)
    watching[1].stop()


async def test_sending_to_many_watchers_yields_and_is_charged_to_the_writer(view: ObjectView) -> None:
    charged: dict[TenantId, float] = {}

    def charge(tenant: TenantId, seconds: float) -> None:
        charged[tenant] = charged.get(tenant, 0) + seconds

    hub = WatchHub(charge=charge)
    writers = [Lines() for _ in range(500)]
    for writer in writers:
        watcher(hub, view, 1).start(writer)
    await settled(hub)
    hub.publish([CacheEvent(CacheEventType.ADDED, entry("n", 2), None)])
    assert sum(writer.lines[-1] == ("ADDED", "n") for writer in writers) == 1
    await settled(hub)
    assert all(writer.lines[-1] == ("ADDED", "n") for writer in writers)
    assert set(charged) == {ACME}


async def test_initial_lists_of_many_watches_take_turns_between_tenants(view: ObjectView) -> None:
    hub, late = WatchHub(), Lines()
    flood = [watcher(hub, view) for _ in range(50)]
    for each in flood:
        each.start(Lines())
    other = watcher(hub, view, 1, TenantId("other"))
    other.start(late)
    for _ in range(3):
        await asyncio.sleep(0)
    assert late.lines == [("ADDED", "m0"), ("BOOKMARK", "")]
    assert not hub.is_idle
    for each in (*flood, other):
        each.stop()
