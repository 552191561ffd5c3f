"""Encrypted bodies in a real store: nothing readable on disk, rotation, and one unreadable object among others."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import Compacted, StoreChangeType, WriteOp
from alcove.store.encrypted import EncryptedStore
from alcove.store.encryption import AesGcmKey, Encryption, Providers
from alcove.store.sqlite import SqliteStore

SECRETS = GroupResource("", "secrets")
OLD, NEW = AesGcmKey("old", b"o" * 32), AesGcmKey("new", b"n" * 32)
BODY = b'{"metadata":{},"data":{"it":"swordfish"}}'


def secret(name: str, tenant: str = "acme") -> Key:
    return Key(SECRETS, TenantId(tenant), "default", name)


def encryption(*order: AesGcmKey | None) -> Encryption:
    return Encryption([(["secrets"], Providers.of(order))])


@pytest.fixture
async def inner(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "store.db")
    yield store
    await store.close()


def bytes_on_disk(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir() if path.is_file())


async def names(store: EncryptedStore) -> dict[str, bytes]:
    return {record.key.name: record.body for record in (await store.snapshot()).records}


async def test_no_file_of_the_store_has_a_secret(tmp_path: Path, inner: SqliteStore) -> None:
    store = EncryptedStore(inner, encryption(NEW))
    await store.write([WriteOp(secret("a"), BODY)])
    await store.write([WriteOp(secret("a"), None, last=BODY)])
    plain = Key(GroupResource("", "configmaps"), TenantId("acme"), "default", "a")
    await store.write([WriteOp(plain, b'{"metadata":{},"data":{"it":"haddock"}}')])
    await inner.close()
    assert b"swordfish" not in bytes_on_disk(tmp_path)
    assert b"haddock" in bytes_on_disk(tmp_path)


async def test_plain_secrets_of_an_older_version_are_readable_and_leave_the_disk(
    tmp_path: Path, inner: SqliteStore
) -> None:
    await inner.write([WriteOp(secret("a"), BODY)])
    store = EncryptedStore(inner, encryption(NEW, None))
    assert await names(store) == {"a": BODY} and store.stale == {secret("a")}
    await store.rewrite_stale()
    await store.compact(await store.revision())
    assert await names(store) == {"a": BODY} and not store.stale
    await inner.close()
    assert b"swordfish" not in bytes_on_disk(tmp_path)


async def test_keys_are_rotated_and_the_old_one_is_not_needed_any_more(inner: SqliteStore) -> None:
    before = EncryptedStore(inner, encryption(OLD))
    for name in ("a", "b"):
        await before.write([WriteOp(secret(name), BODY)])
    start = await inner.revision()
    rotating = EncryptedStore(inner, encryption(NEW, OLD))
    await rotating.snapshot()
    await rotating.rewrite_stale()
    assert await inner.revision() == start + 2
    await rotating.rewrite_stale()
    assert await inner.revision() == start + 2, "what is up to date is not written again"
    after = EncryptedStore(inner, encryption(NEW))
    assert await names(after) == {"a": BODY, "b": BODY} and not after.unreadable


async def test_history_with_a_removed_key_does_not_make_objects_unreadable(inner: SqliteStore) -> None:
    """As a server loads it: an old state first, then what happened since."""
    before = EncryptedStore(inner, encryption(OLD))
    past = await before.write([WriteOp(secret("a"), BODY)])
    rotating = EncryptedStore(inner, encryption(NEW, OLD))
    await rotating.snapshot()
    await rotating.rewrite_stale()
    after = EncryptedStore(inner, encryption(NEW))
    assert not (await after.snapshot(past)).records and after.unreadable
    async with after.feed(past) as feed:
        [event] = await anext(aiter(feed))
    assert event.body == BODY and not after.unreadable
    with pytest.raises(Compacted):
        await after.snapshot(past, resource=SECRETS, tenant=TenantId("acme"))


async def test_an_object_whose_key_is_missing_hides_no_other(
    inner: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    await EncryptedStore(inner, encryption(OLD)).write([WriteOp(secret("lost"), BODY)])
    store = EncryptedStore(inner, encryption(NEW))
    await store.write([WriteOp(secret("fine"), BODY)])
    assert await names(store) == {"fine": BODY}
    assert 'key "old"' in (store.unreadable.find(secret("lost")) or "")
    assert store.unreadable.find(secret("fine")) is None
    assert store.unreadable.first(SECRETS, TenantId("acme"), None) == secret("lost")
    assert store.unreadable.first(SECRETS, TenantId("acme"), "other") is None
    assert store.unreadable.first(SECRETS, TenantId("other"), None) is None
    with caplog.at_level(logging.ERROR):
        store.report()
    assert str(secret("lost")) in str([record.__dict__ for record in caplog.records])


async def test_an_object_that_becomes_unreadable_is_no_longer_served_from_before(inner: SqliteStore) -> None:
    """Another server writes it with a key that this one does not have, and later with one that it has."""
    store, other = EncryptedStore(inner, encryption(NEW)), EncryptedStore(inner, encryption(OLD))
    start = await store.write([WriteOp(secret("a"), BODY)])
    seen: list[tuple[StoreChangeType, bool]] = []
    async with store.feed(start) as feed:
        for writer in (other, store, other):
            await writer.write([WriteOp(secret("a"), BODY)])
            [event] = await anext(aiter(feed))
            seen.append((event.change, store.unreadable.find(secret("a")) is not None))
        await other.write([WriteOp(secret("a"), None)])
        [event] = await anext(aiter(feed))
    assert seen == [
        (StoreChangeType.DELETED, True),
        (StoreChangeType.UPDATED, False),
        (StoreChangeType.DELETED, True),
    ]
    assert event.change is StoreChangeType.DELETED and not store.unreadable


async def test_secrets_swapped_between_tenants_in_the_database_are_not_served(inner: SqliteStore) -> None:
    store = EncryptedStore(inner, encryption(NEW))
    await store.write([WriteOp(secret("a", "acme"), BODY)])
    [stolen] = (await inner.snapshot()).records
    await inner.write([WriteOp(secret("a", "evil"), stolen.body)])
    records = (await store.snapshot(Revision(await inner.revision()))).records
    assert [record.key.tenant for record in records] == ["acme"]
