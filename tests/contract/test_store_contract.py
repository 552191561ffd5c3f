"""The promises of every store (`store/base.py`), one group of tests per promise."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.api.resources import DEPLOYMENTS, PODS
from alcove.store.base import (
    ABSENT,
    OPS_MAX,
    Compacted,
    FeedLagged,
    RevisionInFuture,
    RevisionMismatch,
    Store,
    StoreChangeType,
    StoreEvent,
    StoreRecord,
    StoreUnavailable,
    WriteOp,
)
from alcove.store.feed import JOIN_WITHIN_REVISIONS
from alcove.store.queue import QUEUED_EVENTS_MAX

Open = Callable[[], Awaitable[Store]]


def pod(name: str, tenant: str = "acme", namespace: str = "default") -> Key:
    return Key(PODS, TenantId(tenant), namespace, name)


def put(name: str, body: bytes = b"{}", expected: Revision | None = None) -> WriteOp:
    return WriteOp(pod(name), body, expected)


@pytest.fixture
async def store(open_store: Open) -> AsyncIterator[Store]:
    opened = await open_store()
    yield opened
    await opened.close()


async def take(store: Store, after: Revision, count: int) -> list[StoreEvent]:
    """The first `count` events after a revision."""
    events: list[StoreEvent] = []
    async with asyncio.timeout(60), store.feed(after) as feed:
        while len(events) < count:
            events += await anext(feed)
    return events


async def bodies(store: Store, at: Revision | None = None) -> dict[str, bytes]:
    return {record.key.name: record.body for record in (await store.snapshot(at)).records}


async def bodies_in_pages(store: Store, at: Revision) -> dict[str, bytes]:
    records = [record async for page in store.pages(at) for record in page]
    assert len({record.key for record in records}) == len(records)
    return {record.key.name: record.body for record in records}


# ordered


async def test_ordered_events_come_in_revision_order(store: Store) -> None:
    async with store.feed(await store.revision()) as feed:
        written = await asyncio.gather(*(store.write([put(f"p{n}")]) for n in range(100)))
        events: list[StoreEvent] = []
        while len(events) < 100:
            events += await anext(feed)
    assert [event.revision for event in events] == sorted(written)


async def test_ordered_every_feed_sees_the_same(store: Store) -> None:
    start = await store.revision()
    async with store.feed(start) as first, store.feed(start) as second:
        for n in range(5):
            await store.write([put("p", str(n).encode())])
        seen: list[list[StoreEvent]] = [[], []]
        for feed, events in zip((first, second), seen, strict=True):
            while len(events) < 5:
                events += await anext(feed)
    assert seen[0] == seen[1]
    assert [event.body for event in seen[0]] == [b"0", b"1", b"2", b"3", b"4"]


# unique


async def test_unique_every_transaction_gets_a_greater_revision(store: Store) -> None:
    written = [await store.write([put("p")]) for _ in range(10)]
    assert written == sorted(set(written))


async def test_unique_concurrent_writers_never_share_a_revision(store: Store) -> None:
    written = await asyncio.gather(*(store.write([put(f"p{n % 7}")]) for n in range(200)))
    assert len(set(written)) == 200


async def test_unique_an_event_comes_once_though_writes_go_on_while_a_feed_catches_up(store: Store) -> None:
    start = await store.revision()
    for n in range(300):
        await store.write([put(f"old{n}")])
    async with asyncio.timeout(60), store.feed(start) as feed:
        writing = asyncio.gather(*(store.write([put(f"new{n}")]) for n in range(300)))
        events: list[StoreEvent] = []
        while len(events) < 600:
            events += await anext(feed)
        await writing
    assert len({event.key.name for event in events}) == 600
    assert [event.revision for event in events] == sorted(event.revision for event in events)


# atomic


async def test_atomic_a_transaction_has_one_revision_and_one_batch(store: Store) -> None:
    start = await store.revision()
    revision = await store.write([put("a"), put("b"), WriteOp(pod("c", namespace="other"), b"{}")])
    async with store.feed(start) as feed:
        batch = await anext(feed)
    assert {event.key.name for event in batch} == {"a", "b", "c"}
    assert {event.revision for event in batch} == {revision}


async def test_atomic_one_mismatch_leaves_everything_as_it_was(store: Store) -> None:
    revision = await store.write([put("a", b"old")])
    with pytest.raises(RevisionMismatch) as caught:
        await store.write([put("a", b"new"), put("b", expected=Revision(77))])
    assert (caught.value.key, caught.value.actual) == (pod("b"), ABSENT)
    assert await bodies(store) == {"a": b"old"}
    assert await store.revision() == revision


async def test_atomic_a_refused_transaction_does_not_fail_its_neighbours(store: Store) -> None:
    writes = [store.write([put(f"p{n}", expected=ABSENT if n % 2 else Revision(5_000))]) for n in range(20)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(outcome, RevisionMismatch) for outcome in outcomes] == [True, False] * 10
    assert len(await bodies(store)) == 10


async def test_atomic_transactions_have_one_to_many_distinct_keys(store: Store) -> None:
    await store.write([put(f"p{n}") for n in range(OPS_MAX)])
    for wrong in ([], [put(f"p{n}") for n in range(OPS_MAX + 1)], [put("a"), put("a")]):
        with pytest.raises(ValueError, match="transaction"):
            await store.write(wrong)


async def test_atomic_a_write_that_cannot_be_stored_does_not_fail_its_neighbours(store: Store) -> None:
    lone_surrogate = put("\ud800")
    outcomes = await asyncio.gather(
        store.write([put("a")]),
        store.write([lone_surrogate]),
        store.write([put("b")]),
        return_exceptions=True,
    )
    assert [isinstance(outcome, ValueError) for outcome in outcomes] == [False, True, False]
    assert set(await bodies(store)) == {"a", "b"}


async def test_atomic_what_only_has_to_be_as_expected_is_kept(store: Store) -> None:
    other = await store.write([put("other")])
    start = await store.revision()
    kept = WriteOp(pod("other"), None, other, keeps=True)
    await store.write([put("p"), kept])
    assert await bodies(store) == {"p": b"{}", "other": b"{}"}
    async with store.feed(start) as feed:
        assert [event.key.name for event in await anext(feed)] == ["p"]
    now = await store.write([put("other", b"2")])
    with pytest.raises(RevisionMismatch) as refused:
        await store.write([put("p", b"2"), kept])
    assert (refused.value.key, refused.value.actual) == (pod("other"), now)
    assert (await bodies(store))["p"] == b"{}"
    # Alone it writes nothing, and needs no revision.
    assert await store.write([WriteOp(pod("other"), None, now, keeps=True)]) == now
    assert await store.write([WriteOp(pod("gone"), None, ABSENT, keeps=True)]) == now


# resumable


async def test_resumable_from_every_revision(store: Store) -> None:
    revisions = [await store.revision()]
    for n in range(10):
        revisions.append(await store.write([put(f"p{n % 3}", str(n).encode())]))
    for index, revision in enumerate(revisions[:-1]):
        events = await take(store, revision, 10 - index)
        assert [event.revision for event in events] == revisions[index + 1 :]


async def test_resumable_from_further_back_than_a_feed_joins_at_once(store: Store) -> None:
    start = await store.revision()
    count = JOIN_WITHIN_REVISIONS + 500
    await asyncio.gather(*(store.write([put(f"p{n}")]) for n in range(count)))
    events = await take(store, start, count)
    assert [event.revision for event in events] == sorted({event.revision for event in events})


async def test_resumable_batches_of_history_are_whole_transactions(store: Store) -> None:
    start = await store.revision()
    for _ in range(11):
        await store.write([put(f"p{n}") for n in range(100)])
    seen: list[Revision] = []
    async with store.feed(start) as feed:
        while len(seen) < 11:
            batch = await anext(feed)
            revisions = [event.revision for event in batch]
            assert all(revisions.count(revision) == 100 for revision in revisions)
            seen += sorted(set(revisions))
    assert seen == sorted(set(seen))


async def test_resumable_after_falling_too_far_behind(store: Store) -> None:
    start = await store.revision()
    transactions = QUEUED_EVENTS_MAX // OPS_MAX + 2
    async with store.feed(start) as feed:
        for _ in range(transactions):
            await store.write([put(f"p{n}") for n in range(OPS_MAX)])
        with pytest.raises(FeedLagged):
            while True:
                await anext(feed)
    assert len(await take(store, start, transactions * OPS_MAX)) == transactions * OPS_MAX


async def test_resumable_across_a_restart(open_store: Open) -> None:
    store = await open_store()
    start = await store.revision()
    written = [await store.write([put("a")]), await store.write([WriteOp(pod("a"), None)])]
    await store.close()
    store = await open_store()
    written.append(await store.write([put("a")]))
    events = await take(store, start, 3)
    await store.close()
    assert [event.revision for event in events] == written
    assert [event.change for event in events] == [
        StoreChangeType.CREATED,
        StoreChangeType.DELETED,
        StoreChangeType.CREATED,
    ]


async def test_resumable_not_from_the_future(store: Store) -> None:
    with pytest.raises(RevisionInFuture):
        async with store.feed(Revision(await store.revision() + 1_000)):
            pass


# bookmarkable


async def test_bookmarkable_revision_is_that_of_the_newest_write(store: Store) -> None:
    for n in range(5):
        assert await store.write([put(f"p{n}")]) == await store.revision()


async def test_bookmarkable_a_waiting_consumer_has_the_event_before_the_writer_goes_on(store: Store) -> None:
    seen: list[Revision] = []
    entered = asyncio.Event()

    async def consume() -> None:
        async with store.feed(await store.revision()) as feed:
            entered.set()
            async for batch in feed:
                seen.append(batch[-1].revision)

    consumer = asyncio.create_task(consume())
    await entered.wait()
    for _ in range(50):
        revision = await store.write([put("p")])
        assert seen[-1] == revision
    consumer.cancel()


# durable


async def test_durable_what_was_acknowledged_is_there_after_a_restart(open_store: Open) -> None:
    store = await open_store()
    revision = await store.write([put("kept", b"body"), put("gone")])
    deleted = await store.write([WriteOp(pod("gone"), None, expected=revision)])
    await store.close()
    store = await open_store()
    assert await store.revision() == deleted
    assert (await store.snapshot()).records == [StoreRecord(pod("kept"), revision, b"body")]
    assert await store.write([put("kept", expected=revision)]) > deleted
    await store.close()


async def test_durable_revisions_never_go_back_though_the_newest_was_a_compacted_delete(
    open_store: Open,
) -> None:
    store = await open_store()
    await store.write([put("a")])
    deleted = await store.write([WriteOp(pod("a"), None)])
    await store.compact(deleted)
    await store.close()
    store = await open_store()
    assert (await store.revision(), await store.compacted()) == (deleted, deleted)
    assert await store.write([put("a")]) > deleted
    await store.close()


async def test_durable_bodies_and_names_are_kept_byte_for_byte(open_store: Open) -> None:
    records = {
        "plain": b"",
        "zero": b"\x00\x00",
        "not-utf8": bytes(range(256)),
        "grüße.世界:x": b'{"a": "\\u0000"}',
        "big": bytes(300_000),
    }
    store = await open_store()
    start = await store.revision()
    await store.write([put(name, body) for name, body in records.items()])
    await store.close()
    store = await open_store()
    assert await bodies(store) == records
    assert {event.key.name: event.body for event in await take(store, start, 5)} == records
    await store.close()


# linearizable


async def test_linearizable_expected_is_compared_with_the_newest_revision(store: Store) -> None:
    first = await store.write([put("a", expected=ABSENT)])
    second = await store.write([put("a", expected=first)])
    for stale in (ABSENT, first):
        with pytest.raises(RevisionMismatch) as caught:
            await store.write([put("a", expected=stale)])
        assert caught.value.actual == second
    third = await store.write([WriteOp(pod("a"), None, expected=second)])
    with pytest.raises(RevisionMismatch):
        await store.write([put("a", expected=third)])
    await store.write([put("a", expected=ABSENT)])


async def test_linearizable_of_many_creates_of_one_key_one_wins(store: Store) -> None:
    writes = [store.write([put("a", str(n).encode(), expected=ABSENT)]) for n in range(50)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, int)]
    losers = [outcome for outcome in outcomes if isinstance(outcome, RevisionMismatch)]
    assert len(losers) == 49
    assert {loser.actual for loser in losers} == {winner}


async def test_linearizable_counting_with_expected_loses_no_step(store: Store) -> None:
    await store.write([put("count", b"0")])

    async def step_up(steps: int) -> None:
        while steps:
            (record,) = (await store.snapshot()).records
            body = str(int(record.body) + 1).encode()
            try:
                await store.write([put("count", body, expected=record.revision)])
                steps -= 1
            except RevisionMismatch:
                pass

    await asyncio.gather(*(step_up(5) for _ in range(8)))
    assert await bodies(store) == {"count": b"40"}


# deleting


async def test_a_delete_event_has_the_last_body(store: Store) -> None:
    start = await store.write([put("a", b"stored"), put("b", b"stored")])
    await store.write([WriteOp(pod("a"), None), WriteOp(pod("b"), None, last=b"final")])
    events = await take(store, start, 2)
    assert {(event.key.name, event.change, event.body) for event in events} == {
        ("a", StoreChangeType.DELETED, b"stored"),
        ("b", StoreChangeType.DELETED, b"final"),
    }


async def test_a_delete_event_has_the_last_body_written_in_the_same_commit(store: Store) -> None:
    start = await store.revision()
    await asyncio.gather(store.write([put("a", b"brief")]), store.write([WriteOp(pod("a"), None)]))
    if (await store.snapshot()).records:
        # Nobody promises an order between concurrent writes: here the deletion came first, to nothing.
        assert [event.change for event in await take(store, start, 1)] == [StoreChangeType.CREATED]
        return
    events = await take(store, start, 2)
    assert [(event.change, event.body) for event in events] == [
        (StoreChangeType.CREATED, b"brief"),
        (StoreChangeType.DELETED, b"brief"),
    ]


async def test_deleting_what_is_absent_changes_nothing(store: Store) -> None:
    start = await store.write([put("a")])
    assert await store.write([WriteOp(pod("b"), None)]) == start
    with pytest.raises(RevisionMismatch):
        await store.write([WriteOp(pod("b"), None, expected=start)])
    mixed = await store.write([WriteOp(pod("b"), None), put("c")])
    assert [event.key.name for event in await take(store, start, 1)] == ["c"]
    assert mixed > start


# snapshots


async def test_snapshot_of_every_revision_is_what_was_there_then(store: Store) -> None:
    expected: dict[Revision, dict[str, bytes]] = {await store.revision(): {}}
    state: dict[str, bytes] = {}
    for n in range(12):
        name = f"p{n % 4}"
        if n % 5 == 4:
            state.pop(name, None)
            revision = await store.write([WriteOp(pod(name), None)])
        else:
            state[name] = str(n).encode()
            revision = await store.write([put(name, state[name])])
        expected[revision] = dict(state)
    for revision, then in expected.items():
        assert await bodies(store, revision) == then
        assert await bodies_in_pages(store, revision) == then
    future = Revision(max(expected) + 1_000)
    with pytest.raises(RevisionInFuture):
        await store.snapshot(future)
    with pytest.raises(RevisionInFuture):
        await bodies_in_pages(store, future)


async def test_snapshot_is_narrowed(store: Store) -> None:
    keys = [
        Key(resource, TenantId(tenant), namespace, "x")
        for resource in (PODS, DEPLOYMENTS)
        for tenant in ("a", "a-b", "b")
        for namespace in ("", "default", "default-2")
    ]
    await store.write([WriteOp(key, b"{}") for key in keys])

    async def found(
        resource: GroupResource | None = None, tenant: TenantId | None = None, namespace: str | None = None
    ) -> set[Key]:
        snapshot = await store.snapshot(resource=resource, tenant=tenant, namespace=namespace)
        return {record.key for record in snapshot.records}

    a = TenantId("a")
    assert await found() == set(keys)
    assert await found(PODS) == {key for key in keys if key.resource == PODS}
    assert await found(PODS, a) == {key for key in keys if key.resource == PODS and key.tenant == a}
    assert await found(DEPLOYMENTS, a, "default") == {Key(DEPLOYMENTS, a, "default", "x")}
    assert await found(PODS, a, "") == {Key(PODS, a, "", "x")}
    assert await found(tenant=a) == {key for key in keys if key.tenant == a}
    assert await found(tenant=a, namespace="default") == {
        key for key in keys if key.tenant == a and key.namespace == "default"
    }


async def test_snapshot_of_many_objects_is_whole(store: Store) -> None:
    for start in range(0, 1_500, 100):
        await store.write([put(f"p{n}", b"x" * (n * 7 % 9_000)) for n in range(start, start + 100)])
    expected = {f"p{n}": n * 7 % 9_000 for n in range(1_500)}
    for found in (await bodies(store), await bodies_in_pages(store, await store.revision())):
        assert {name: len(body) for name, body in found.items()} == expected


async def test_pages_of_a_revision_that_is_compacted_meanwhile_are_not_mixed_with_newer_ones(
    store: Store,
) -> None:
    for start in range(0, 1_500, 100):
        revision = await store.write([put(f"p{n}", b"old") for n in range(start, start + 100)])
    pages = store.pages(revision)
    first = await anext(pages)
    for start in range(0, 1_500, 100):
        newest = await store.write([put(f"p{n}", b"new") for n in range(start, start + 100)])
    await store.compact(newest)
    read = list(first)
    with pytest.raises(Compacted):
        async for page in pages:
            read += page
    assert {record.body for record in read} == {b"old"}


# compaction


async def test_compaction_forgets_history_and_keeps_what_exists(store: Store) -> None:
    first = await store.write([put("kept", b"1"), put("gone")])
    second = await store.write([put("kept", b"2"), WriteOp(pod("gone"), None)])
    third = await store.write([put("kept", b"3")])
    await store.compact(second)
    assert await store.compacted() == second
    for forgotten in (ABSENT, first):
        with pytest.raises(Compacted):
            await bodies_in_pages(store, forgotten)
        with pytest.raises(Compacted) as caught:
            await store.snapshot(forgotten)
        assert caught.value.compacted == second
        with pytest.raises(Compacted):
            async with store.feed(forgotten):
                pass
    assert await bodies(store, second) == {"kept": b"2"}
    assert await bodies(store, third) == await bodies(store) == {"kept": b"3"}
    assert [event.body for event in await take(store, second, 1)] == [b"3"]


async def test_compaction_twice_and_backwards_is_no_error(store: Store) -> None:
    first = await store.write([put("a")])
    second = await store.write([put("a")])
    for revision in (second, second, first):
        await store.compact(revision)
    assert await store.compacted() == second
    with pytest.raises(RevisionInFuture):
        await store.compact(Revision(second + 1_000))


async def test_compaction_keeps_no_reader_waiting(store: Store) -> None:
    """A consistent read waits until the feed has reached the newest revision, also if a compaction took it."""
    first = await store.write([put("gone")])
    async with asyncio.timeout(60), store.feed(first) as feed:
        second = await store.write([WriteOp(pod("gone"), None, last=b"secret")])
        await store.compact(second)
        newest = await store.revision()
        given: list[StoreEvent] = []
        while feed.position < newest:
            given += await anext(feed)
        assert [event.body for event in given] == [b"secret"]


async def test_compaction_of_much_history_leaves_writers_and_bodies_alone(store: Store) -> None:
    for round_number in range(8):
        body = str(round_number).encode()
        await asyncio.gather(*(store.write([put(f"p{n}", body)]) for n in range(100)))
    compacting = asyncio.create_task(store.compact(await store.revision()))
    await asyncio.gather(*(store.write([put(f"q{n}")]) for n in range(100)))
    await compacting
    found = await bodies(store)
    assert found == {f"p{n}": b"7" for n in range(100)} | {f"q{n}": b"{}" for n in range(100)}


# closing


async def test_closed_store_answers_unavailable(store: Store) -> None:
    revision = await store.write([put("a")])
    async with store.feed(revision) as feed:
        waiting = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        await asyncio.gather(store.close(), store.close())
        await store.close()
        attempts: Sequence[Awaitable[object]] = (
            waiting,
            store.write([put("b")]),
            store.snapshot(),
            store.compact(revision),
            store.feed(revision).__aenter__(),
        )
        for attempt in attempts:
            with pytest.raises(StoreUnavailable):
                await attempt


async def test_closing_while_writes_wait_acknowledges_only_what_is_kept(open_store: Open) -> None:
    store = await open_store()
    writes = [asyncio.create_task(store.write([put(f"p{n}")])) for n in range(2_000)]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    await store.close()
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    acknowledged = {f"p{n}" for n, outcome in enumerate(outcomes) if isinstance(outcome, int)}
    assert all(isinstance(outcome, int | StoreUnavailable) for outcome in outcomes)
    store = await open_store()
    assert acknowledged <= set(await bodies(store))
    await store.close()


async def test_cancelled_writer_does_not_disturb_the_others(store: Store) -> None:
    writes = [asyncio.create_task(store.write([put(f"p{n}")])) for n in range(20)]
    await asyncio.sleep(0)
    for write in writes[::2]:
        write.cancel()
    outcomes = await asyncio.gather(*writes[1::2])
    assert len(set(outcomes)) == 10
    assert {f"p{n}" for n in range(1, 20, 2)} <= set(await bodies(store))
