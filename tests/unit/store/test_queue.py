import asyncio

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import FeedLagged, StoreChangeType, StoreEvent, StoreUnavailable
from alcove.store.queue import QUEUED_EVENTS_MAX, EventQueue

EVENT = StoreEvent(
    StoreChangeType.UPDATED, Key(GroupResource("", "pods"), TenantId("a"), "n", "x"), Revision(1), b""
)


@pytest.fixture
async def queue() -> EventQueue:
    return EventQueue(asyncio.get_running_loop())


async def test_batches_come_out_as_they_went_in(queue: EventQueue) -> None:
    queue.push([EVENT], Revision(1))
    queue.push([EVENT, EVENT], Revision(2))
    assert queue.events == 3
    queue.push([], Revision(5))
    taken = [(len(await queue.take()), queue.position) for _ in range(3)]
    assert taken == [(1, 1), (2, 2), (0, 5)]
    assert queue.events == 0


async def test_waiting_consumer_is_woken(queue: EventQueue) -> None:
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    queue.push([EVENT], Revision(1))
    assert await waiting == [EVENT]


async def test_too_much_unread_is_dropped_and_the_first_error_stays(queue: EventQueue) -> None:
    for _ in range(QUEUED_EVENTS_MAX + 2):
        queue.push([EVENT], Revision(1))
    queue.end(StoreUnavailable("closed"))
    assert queue.events == 0
    with pytest.raises(FeedLagged):
        await queue.take()


async def test_end_comes_after_what_is_queued(queue: EventQueue) -> None:
    queue.push([EVENT], Revision(1))
    queue.end(StoreUnavailable("closed"))
    assert await queue.take() == [EVENT]
    with pytest.raises(StoreUnavailable):
        await queue.take()
