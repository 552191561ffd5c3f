"""What one plane may have of a process; others keep theirs."""

import asyncio
import time

import pytest

from alcove.api.ids import Revision
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.errors import PlaneTooLarge
from alcove.client.keys import PlaneId
from alcove.client.mirror import Mirror
from alcove.client.plane_share import BURST_SECONDS_MAX, OBJECT_BYTES, TIME_SHARE, PlaneShare, SharePool
from alcove.client.resources import CONFIG_MAPS
from alcove.testing.clock import VirtualClock

PLANE = PlaneId("big")
ROOM = 10 * (OBJECT_BYTES + 1_500)
"""For ten of the objects below, not for eleven."""


def config_map(name: str, revision: int = 1) -> Object:
    metadata = {"tenant": "big", "namespace": "default", "name": name, "uid": name}
    return {"metadata": {**metadata, "resourceVersion": str(revision)}, "data": {"k": "x" * 1_300}}


class Listed:
    """A mirror's part for one plane, which is listed."""

    def __init__(self, share: PlaneShare) -> None:
        self.mirror = Mirror(ListSelection(CONFIG_MAPS))
        self.part = self.mirror.add_plane(PLANE, share=share)
        self.deleted: list[str] = []
        self.mirror.subscribe(self._note)

    def _note(self, change: ObjectChange) -> None:
        if change.kind is ChangeType.DELETED:
            self.deleted.append(change.key.name)

    def list(self, *names: str) -> None:
        self.part.begin_list()
        for name in names:
            self.part.put(config_map(name), Revision(1))
        self.part.end_list(Revision(1))

    def names(self) -> set[str]:
        return {key.name for key in self.mirror.everything()}


def names(start: int, count: int) -> list[str]:
    return [f"c{number}" for number in range(start, start + count)]


def test_a_plane_with_too_many_objects_is_refused_and_what_was_known_stays() -> None:
    listed = Listed(PlaneShare(SharePool(4 * ROOM), ROOM))
    listed.list(*names(0, 10))
    with pytest.raises(PlaneTooLarge):
        listed.part.put(config_map("one-more", 2), Revision(2))
    assert listed.names() == set(names(0, 10)) and not listed.deleted


def test_a_plane_that_has_become_small_enough_is_listed_again() -> None:
    """Objects that are not confirmed yet do not count against the list."""
    listed = Listed(PlaneShare(SharePool(4 * ROOM), ROOM))
    listed.list(*names(0, 10))
    with pytest.raises(PlaneTooLarge):
        listed.list(*names(0, 11))
    listed.list(*names(20, 10))
    assert listed.names() == set(names(20, 10))
    listed.list(*names(20, 10))
    listed.part.put(config_map("c20", 5), Revision(5))
    with pytest.raises(PlaneTooLarge):
        listed.part.put(config_map("more", 6), Revision(6))


def test_lists_that_break_off_do_not_fill_the_memory() -> None:
    share = PlaneShare(SharePool(4 * ROOM), ROOM)
    listed = Listed(share)
    for number in range(20):
        listed.part.begin_list()
        for name in names(100 * number, 8):
            listed.part.put(config_map(name), Revision(1))
    assert len(listed.names()) <= 30
    listed.list("c0")
    assert listed.names() == {"c0"}
    listed.list(*names(0, 10))


def test_what_a_plane_leaves_is_for_others() -> None:
    pool = SharePool(2 * ROOM)
    first, second = Listed(PlaneShare(pool, 4 * ROOM)), Listed(PlaneShare(pool, 4 * ROOM))
    with pytest.raises(PlaneTooLarge):
        first.list(*names(0, 15))  # At most as much as is left for others.
    second.list(*names(0, 4))
    first.mirror.remove_plane(PLANE)
    second.list(*names(0, 9))
    second.mirror.remove_plane(PLANE)
    assert pool.free_bytes == 2 * ROOM


def test_the_home_plane_has_no_such_limit() -> None:
    mirror = Mirror(ListSelection(CONFIG_MAPS))
    part = mirror.add_plane(PLANE)
    for name in names(0, 100):
        part.put(config_map(name), Revision(1))
    assert mirror.count() == 100


def test_events_that_take_too_long_wait_their_turn() -> None:
    clock = VirtualClock()

    async def spend() -> float:
        share = PlaneShare(SharePool(), clock=clock)
        began = clock()
        for _ in range(100):
            await share.pause(0.1)
        return clock() - began

    # Ten seconds of work: half of it at once, the rest at its share of the time.
    assert clock.run(spend()) == pytest.approx((10.0 - BURST_SECONDS_MAX) / TIME_SHARE, rel=0.1)


def test_a_plane_that_sends_little_never_waits() -> None:
    async def spend() -> None:
        share = PlaneShare(SharePool())
        async with asyncio.timeout(30):
            for _ in range(1_000):
                await share.pause(0.0001)

    asyncio.run(spend())


def test_work_is_charged_for_what_it_computes_not_for_what_it_waits() -> None:
    async def run() -> tuple[float, float]:
        share, loop = PlaneShare(SharePool()), asyncio.get_running_loop()

        async def waits() -> int:
            await asyncio.sleep(0.2)
            return 7

        async def computes() -> None:
            await asyncio.sleep(0)
            ends = time.perf_counter() + 0.05
            while time.perf_counter() < ends:
                pass
            raise KeyError("x")

        assert await share.run(waits()) == 7
        left = share._credit_seconds
        with pytest.raises(KeyError):
            await share.run(computes())
        async with asyncio.timeout(30):
            task = loop.create_task(share.run(asyncio.Event().wait()))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return left, share._credit_seconds

    left, after = asyncio.run(run())
    assert left > BURST_SECONDS_MAX - 0.1
    assert after < left - 0.03


def test_many_planes_in_debt_share_half_of_the_time_and_others_wait_for_none() -> None:
    clock = VirtualClock()

    async def spend() -> tuple[float, float]:
        pool = SharePool()
        greedy = [PlaneShare(pool, clock=clock) for _ in range(10)]
        quiet = PlaneShare(pool, clock=clock)
        began = clock()

        async def flood(share: PlaneShare) -> None:
            for _ in range(20):
                await share.pause(1.0)

        async with asyncio.TaskGroup() as tasks:
            for share in greedy:
                tasks.create_task(flood(share))
            await asyncio.sleep(60.0)
            before = clock()
            await quiet.pause(0.1)
            waited = clock() - before
        return waited, clock() - began

    waited, took = clock.run(spend())
    assert waited == 0.0
    assert took > 10 * (20.0 - BURST_SECONDS_MAX - 1.0) / 0.5
