import asyncio
from collections.abc import Sequence

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import Compacted, FeedLagged, StoreChangeType, StoreEvent, StoreUnavailable
from alcove.store.feed import JOIN_WITHIN_REVISIONS, Feeds, LogFeed
from alcove.store.queue import QUEUED_EVENTS_MAX

KEY = Key(GroupResource("", "pods"), TenantId("a"), "n", "x")


def event(revision: int) -> StoreEvent:
    return StoreEvent(StoreChangeType.UPDATED, KEY, Revision(revision), b"")


class Log:
    """A log with one event per revision, whose history is read in small pieces."""

    def __init__(self, revision: int, piece: int = 10) -> None:
        self.piece = piece
        self.reads = 0
        self.feeds = Feeds(asyncio.get_running_loop(), self.history, Revision(revision), Revision(0))

    async def history(self, after: Revision, upto: Revision) -> Sequence[StoreEvent]:
        self.reads += 1
        await asyncio.sleep(0)
        return [event(n) for n in range(after + 1, min(after + self.piece, upto) + 1)]

    def commit(self, count: int = 1) -> None:
        first = self.feeds.revision + 1
        self.feeds.publish([event(n) for n in range(first, first + count)], Revision(first + count - 1))


async def revisions(feed: LogFeed, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += [each.revision for each in await anext(feed)]
    return found


async def test_feed_from_the_past_joins_without_gap_or_repetition() -> None:
    log = Log(revision=JOIN_WITHIN_REVISIONS + 95)
    async with log.feeds.after(Revision(0)) as feed:
        found: list[int] = []
        while not found or found[-1] < JOIN_WITHIN_REVISIONS + 300:
            found += [each.revision for each in await anext(feed)]
            log.commit(3)
    assert found == list(range(1, len(found) + 1))


async def test_feed_from_now_reads_no_history() -> None:
    log = Log(revision=5)
    async with log.feeds.after(Revision(5)) as feed:
        log.commit()
        assert await revisions(feed, 1) == [6]
    assert log.reads == 0


async def test_feed_skips_revisions_that_left_no_history() -> None:
    log = Log(revision=5)

    async def nothing(after: Revision, upto: Revision) -> Sequence[StoreEvent]:
        return []

    feeds = Feeds(asyncio.get_running_loop(), nothing, Revision(9), Revision(0))
    async with asyncio.timeout(60), feeds.after(Revision(3)) as feed:
        feeds.publish([event(10)], Revision(10))
        assert await revisions(feed, 1) == [10]
    assert log.reads == 0


async def test_feed_left_unread_ends_with_lagged_and_frees_its_queue() -> None:
    log = Log(revision=0)
    async with log.feeds.after(Revision(0)) as slow, log.feeds.after(Revision(0)) as quick:
        log.commit(QUEUED_EVENTS_MAX)
        assert len(await anext(quick)) == QUEUED_EVENTS_MAX
        log.commit()
        with pytest.raises(FeedLagged, match=str(QUEUED_EVENTS_MAX + 1)):
            await anext(slow)
        assert slow.queue.events == 0
        assert await revisions(quick, 1) == [QUEUED_EVENTS_MAX + 1]


async def test_one_commit_larger_than_the_queue_is_still_delivered() -> None:
    log = Log(revision=0)
    async with log.feeds.after(Revision(0)) as feed:
        log.commit(QUEUED_EVENTS_MAX + 1)
        assert len(await anext(feed)) == QUEUED_EVENTS_MAX + 1


async def test_closing_gives_what_is_queued_first() -> None:
    log = Log(revision=0)
    async with log.feeds.after(Revision(0)) as feed:
        log.commit()
        log.feeds.close("gone home")
        assert await revisions(feed, 1) == [1]
        with pytest.raises(StoreUnavailable, match="gone home"):
            await anext(feed)
    with pytest.raises(StoreUnavailable, match="gone home"):
        await log.feeds.after(Revision(1)).__aenter__()


async def test_cancelled_consumer_misses_nothing() -> None:
    log = Log(revision=0)
    async with log.feeds.after(Revision(0)) as feed:
        waiting = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        log.commit()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await revisions(feed, 1) == [1]


async def test_feed_left_is_no_longer_fed() -> None:
    log = Log(revision=0)
    async with log.feeds.after(Revision(0)) as feed:
        pass
    log.commit()
    assert feed.queue.events == 0


async def test_compacted_start_is_refused() -> None:
    log = Log(revision=9)
    log.feeds.compacted = Revision(4)
    with pytest.raises(Compacted):
        await log.feeds.after(Revision(3)).__aenter__()
    async with log.feeds.after(Revision(4)):
        pass
