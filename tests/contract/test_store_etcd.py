"""Tests of the etcd store only: several servers, broken connections, a cluster that others use too."""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.api.resources import DEPLOYMENTS, PODS
from alcove.store import etcd_client, etcd_feed, etcd_wire
from alcove.store.base import (
    ABSENT,
    Compacted,
    RevisionMismatch,
    StoreChangeType,
    StoreEvent,
    StoreOpenError,
    StoreUnavailable,
    WriteOp,
    WriteOutcomeUnknown,
)
from alcove.store.etcd import EtcdStore
from alcove.store.etcd_client import EtcdClient
from alcove.store.etcd_keys import EtcdKeys

_numbers = itertools.count()


class Server(Protocol):
    endpoint: str

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def send(self, number: signal.Signals) -> None: ...


def put(name: str, body: bytes = b"{}", expected: Revision | None = None) -> WriteOp:
    return WriteOp(Key(PODS, TenantId("a"), "n", name), body, expected)


@pytest.fixture
def prefix() -> str:
    return f"/particular-{next(_numbers)}"


@pytest.fixture
async def store(etcd_endpoint: str, prefix: str) -> AsyncIterator[EtcdStore]:
    opened = await EtcdStore.open([etcd_endpoint], prefix=prefix)
    yield opened
    await opened.close()


async def raw_put(endpoint: str, path: str, value: bytes) -> None:
    client = EtcdClient([endpoint])
    request = etcd_wire.TxnRequest()
    request.success.add(request_put=etcd_wire.PutRequest(key=path.encode(), value=value))
    await client.txn(request)
    await client.close()


async def collect(store: EtcdStore, after: Revision, into: list[StoreEvent], entered: asyncio.Event) -> None:
    async with store.feed(after) as feed:
        entered.set()
        async for batch in feed:
            into.extend(batch)


# keys


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (Key(PODS, TenantId("acme"), "default", "web"), b"/registry/pods/acme/default/web"),
        (Key(DEPLOYMENTS, TenantId("a"), "n", "x:y"), b"/registry/deployments.apps/a/n/x:y"),
        (Key(GroupResource("", "nodes"), TenantId("system"), "", "n1"), b"/registry/nodes/system//n1"),
    ],
)
def test_keys_are_paths_as_documented(key: Key, path: bytes) -> None:
    keys = EtcdKeys("/registry")
    assert keys.path(key) == path == str(key).encode()
    assert keys.key(path) == key


@pytest.mark.parametrize(
    "key",
    [
        Key(PODS, TenantId("a/b"), "n", "x"),
        Key(PODS, TenantId("a"), "n/m", "x"),
        Key(GroupResource("", "pods/status"), TenantId("a"), "n", "x"),
    ],
)
def test_keys_that_could_be_taken_for_others_are_refused(key: Key) -> None:
    with pytest.raises(ValueError, match="slash"):
        EtcdKeys("/registry").path(key)


# several servers


async def test_servers_see_each_others_writes(etcd_endpoint: str, store: EtcdStore, prefix: str) -> None:
    other = await EtcdStore.open([etcd_endpoint], prefix=prefix)
    async with store.feed(await store.revision()) as feed:
        theirs = await other.write([put("a")])
        ours = await store.write([put("a", expected=theirs)])
        events: list[StoreEvent] = []
        while len(events) < 2:
            events += await anext(feed)
    assert [(event.change, event.revision) for event in events] == [
        (StoreChangeType.CREATED, theirs),
        (StoreChangeType.UPDATED, ours),
    ]
    with pytest.raises(RevisionMismatch):
        await other.write([put("a", expected=theirs)])
    await other.close()


async def test_compaction_by_another_server_is_noticed(
    etcd_endpoint: str, store: EtcdStore, prefix: str
) -> None:
    other = await EtcdStore.open([etcd_endpoint], prefix=prefix)
    first = await store.write([put("a")])
    second = await store.write([put("a")])
    await other.compact(second)
    assert await store.compacted() == second
    with pytest.raises(Compacted):
        await store.snapshot(first)
    with pytest.raises(Compacted):
        await store.feed(first).__aenter__()
    await other.close()


async def test_what_others_keep_in_the_cluster_is_not_ours(
    etcd_endpoint: str, store: EtcdStore, prefix: str
) -> None:
    start = await store.revision()
    for path in (f"{prefix}-other/pods/a/n/x", "/else", f"{prefix}"):
        await raw_put(etcd_endpoint, path, b"theirs")
    assert (await store.snapshot()).records == []
    async with store.feed(start) as feed:
        mine = await store.write([put("mine")])
        assert [event.revision for event in await anext(feed)] == [mine]


async def test_feed_may_start_after_revisions_that_were_others(etcd_endpoint: str, store: EtcdStore) -> None:
    await raw_put(etcd_endpoint, "/else", b"theirs")
    snapshot = await store.snapshot()
    async with store.feed(snapshot.revision) as feed:
        mine = await store.write([put("mine")])
        assert [event.revision for event in await anext(feed)] == [mine]


# last bodies


async def test_last_body_of_the_absent_is_not_kept(store: EtcdStore) -> None:
    start = await store.write([put("a")])
    gone = WriteOp(put("b").key, None, last=b"secret")
    assert await store.write([gone]) == start
    assert await store.revision() == start


async def test_last_bodies_go_with_history(etcd_endpoint: str, store: EtcdStore, prefix: str) -> None:
    await store.write([put("a")])
    await store.write([WriteOp(put("a").key, None, last=b"secret")])
    await store.compact(await store.revision())
    await store.compact(await store.revision())
    client, keys = EtcdClient([etcd_endpoint]), EtcdKeys(prefix)
    start, end = keys.lasts
    found = await client.range(etcd_wire.RangeRequest(key=start, range_end=end))
    assert list(found.kvs) == []
    await client.close()


# connections


async def test_opening_fails_when_etcd_is_unreachable() -> None:
    async with asyncio.timeout(60):
        with pytest.raises(StoreOpenError, match="etcd"):
            await EtcdStore.open(["127.0.0.1:1"])


async def test_another_endpoint_is_used_when_one_does_not_answer(etcd_endpoint: str, prefix: str) -> None:
    store = await EtcdStore.open(["127.0.0.1:1", etcd_endpoint], prefix=prefix)
    assert await store.write([put("a")]) == await store.revision()
    await store.close()


async def test_a_write_without_an_answer_may_have_happened_and_one_that_was_not_sent_has_not(
    new_etcd: Callable[[], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_etcd()
    store = await EtcdStore.open([server.endpoint])
    await store.write([put("a")])
    monkeypatch.setattr(etcd_client, "CALL_SECONDS_MAX", 1.0)
    server.send(signal.SIGSTOP)
    with pytest.raises(WriteOutcomeUnknown):
        await store.write([put("b")])
    server.send(signal.SIGCONT)
    await asyncio.to_thread(server.kill)
    with pytest.raises(StoreUnavailable) as refused:
        async with asyncio.timeout(60):
            while True:
                # Once the connection is known to be gone, nothing is sent.
                with suppress(WriteOutcomeUnknown):
                    await store.write([put("c")])
    assert "failed to connect" in str(refused.value)
    await store.close()


async def test_feed_survives_kill_9_of_etcd_without_gap_or_repetition(new_etcd: Callable[[], Server]) -> None:
    server = new_etcd()
    store = await EtcdStore.open([server.endpoint])
    events: list[StoreEvent] = []
    entered = asyncio.Event()
    consumer = asyncio.create_task(collect(store, await store.revision(), events, entered))
    await entered.wait()
    acknowledged: list[Revision] = []

    async def write_on(count: int) -> None:
        for number in range(count):
            try:
                acknowledged.append(await store.write([put(f"p{len(acknowledged)}", str(number).encode())]))
            except StoreUnavailable:
                await asyncio.sleep(0.05)

    await write_on(20)
    await asyncio.to_thread(server.kill)
    with pytest.raises(StoreUnavailable):
        await store.write([put("nobody")])
    await asyncio.to_thread(server.start)
    async with asyncio.timeout(60):
        while len(acknowledged) < 40:
            await write_on(1)
    assert events[-1].revision >= acknowledged[-1]
    revisions = [event.revision for event in events]
    assert revisions == sorted(set(revisions))
    assert set(acknowledged) <= set(revisions)
    consumer.cancel()
    await store.close()


async def test_feed_in_the_past_lets_its_consumer_set_the_pace(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_feed, "HISTORY_QUEUED_MAX", 100)
    start = await store.revision()
    for _ in range(60):
        await store.write([put(f"p{number}") for number in range(50)])
    async with asyncio.timeout(60), store.feed(start) as feed:
        first = await anext(feed)
        # A consumer that takes its time holds up nobody's write.
        newest = await store.write([put("while-it-waits")])
        revisions = [event.revision for event in first]
        while revisions[-1] < newest:
            revisions += [event.revision for event in await anext(feed)]
    assert len(revisions) == 60 * 50 + 1
    assert revisions == sorted(revisions)


@pytest.mark.parametrize("size", [1_700_000, 3 << 20])
async def test_value_too_large_for_etcd_is_the_writers_fault(store: EtcdStore, size: int) -> None:
    with pytest.raises(ValueError, match="large"):
        await store.write([put("huge", bytes(size))])
    await store.write([put("small", expected=ABSENT)])
