"""Tenants that are closed: nothing of them is written, but what their move writes; and revisions that go on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.resources import LEASES
from alcove.store.base import ABSENT, OPS_MAX, RevisionMismatch, WriteOp
from alcove.store.closures import ClosableStore, TenantClosed, closed_tenant, closure
from alcove.store.sqlite import SqliteStore

ACME, BOLT = TenantId("acme"), TenantId("bolt")


def put(tenant: TenantId, name: str = "a", expected: Revision | None = None) -> WriteOp:
    return WriteOp(Key(GroupResource("", "configmaps"), tenant, "default", name), b"{}", expected)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ClosableStore]:
    opened = ClosableStore(await SqliteStore.open(tmp_path / "store.db"))
    yield opened
    await opened.close()


async def test_a_closed_tenant_is_not_written_to_and_others_are(store: ClosableStore) -> None:
    await store.write([put(ACME)])
    await store.write([WriteOp(closure(ACME), b"{}", ABSENT)])
    for refused in ([put(ACME)], [put(ACME, "b"), put(SYSTEM)], [put(SYSTEM), put(BOLT), put(ACME)]):
        with pytest.raises(TenantClosed, match='"acme" is moving'):
            await store.write(refused)
    with pytest.raises(TenantClosed):
        await store.write([WriteOp(put(ACME).key, None)])
    await store.write([put(BOLT), put(SYSTEM)])
    await store.write([WriteOp(closure(ACME), None)])
    await store.write([put(ACME, "b")])
    names = sorted(each.key.name for each in (await store.snapshot(tenant=ACME)).records)
    assert names == ["a", "b"]


async def test_a_move_writes_only_while_the_tenant_is_closed(store: ClosableStore) -> None:
    closed_at = await store.write([WriteOp(closure(ACME), b"{}", ABSENT)])
    lock = WriteOp(closure(ACME), None, closed_at, keeps=True)
    await store.write([*(put(ACME, f"n{number}") for number in range(OPS_MAX)), lock])
    await store.write([WriteOp(closure(ACME), None)])
    with pytest.raises(RevisionMismatch):
        await store.write([put(ACME), lock])
    # Closed again is another closure: a move that was paused meanwhile does not go on.
    await store.write([WriteOp(closure(ACME), b"{}", ABSENT)])
    with pytest.raises(RevisionMismatch):
        await store.write([put(ACME), lock])


async def test_a_transaction_may_have_as_many_operations_as_before(store: ClosableStore) -> None:
    await store.write([put(ACME, f"n{number}") for number in range(OPS_MAX)])
    with pytest.raises(RevisionMismatch) as mismatch:
        await store.write([put(ACME, "n1", ABSENT), put(ACME, "other")])
    assert mismatch.value.key.name == "n1", "other mismatches stay what they are"


async def test_revisions_go_on_after_those_of_another_store(store: ClosableStore, tmp_path: Path) -> None:
    first = await store.write([put(ACME)])
    op = put(ACME, "b")
    later = await store.write([WriteOp(op.key, op.body, after=Revision(1_000_000))])
    assert first < 1_000_000 < later == await store.revision()
    assert await store.write([put(ACME, "c")]) == later + 1
    await store.compact(later)
    assert await store.compacted() == later
    async with store.feed(later) as feed:
        assert [each.key.name for each in await anext(feed)] == ["c"]
    await store.close()
    again = await SqliteStore.open(tmp_path / "store.db")
    assert await again.revision() == later + 1
    assert {each.key.name: each.revision for each in (await again.snapshot()).records}["b"] == later
    await again.close()


def test_other_leases_close_nobody() -> None:
    assert closed_tenant(closure(ACME)) == ACME
    for key in (
        Key(LEASES, SYSTEM, "kube-system", "alcove-controllers"),
        Key(LEASES, ACME, "kube-system", closure(BOLT).name),
        Key(LEASES, SYSTEM, "default", closure(BOLT).name),
        Key(GroupResource("", "configmaps"), SYSTEM, "kube-system", closure(BOLT).name),
    ):
        assert closed_tenant(key) is None
