"""A store whose bodies are encrypted before they reach the store beneath it (`encryption`).

It is the only reader and writer of stored bodies in the API server: above it everything is JSON, below it (the
database, its log, etcd, backups) are the bytes that the encryption configuration asks for.

A body that cannot be read (its key is missing or wrong) hides that one object: feeds and snapshots leave it
out, and `unreadable` says why. Bodies that an older configuration wrote are `stale` until `rewrite_stale`.
"""

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import orjson

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import (
    Compacted,
    RevisionMismatch,
    Store,
    StoreChangeType,
    StoreEvent,
    StoreFeed,
    StoreRecord,
    StoreSnapshot,
    WriteOp,
)
from alcove.store.closures import TenantClosed
from alcove.store.encryption import MARK, Encryption, UnreadableBody
from alcove.store.layer import StoreLayer

log = logging.getLogger(__name__)

REPORTED_KEYS_MAX = 10


class UnreadableObjects:
    """The objects whose stored bodies cannot be read, each with the reason."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[GroupResource, TenantId], dict[Key, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def __iter__(self) -> Iterator[tuple[Key, str]]:
        for reasons in self._reasons.values():
            yield from reasons.items()

    def find(self, key: Key) -> str | None:
        return self._reasons.get((key.resource, key.tenant), {}).get(key)

    def first(self, resource: GroupResource, tenant: TenantId, namespace: str | None) -> Key | None:
        """One of a tenant's unreadable objects, of all its namespaces if `namespace` is None."""
        keys = self._reasons.get((resource, tenant), ())
        return next((key for key in keys if namespace in (None, key.namespace)), None)

    def add(self, key: Key, reason: str) -> None:
        self._reasons.setdefault((key.resource, key.tenant), {})[key] = reason

    def discard(self, key: Key) -> None:
        group = (key.resource, key.tenant)
        reasons = self._reasons.get(group)
        if reasons is not None and reasons.pop(key, None) is not None and not reasons:
            del self._reasons[group]


class EncryptedStore(StoreLayer):
    def __init__(self, store: Store, encryption: Encryption) -> None:
        super().__init__(store)
        self.unreadable = UnreadableObjects()
        self.stale: set[Key] = set()
        """Objects that are stored in another form than the configuration asks for now."""
        self._encryption = encryption
        self._is_reported = False
        """Before `report`, events may be history, and what they say may be superseded."""

    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        return await self.inner.write([self._sealed(op) for op in ops])

    async def snapshot(
        self,
        at: Revision | None = None,
        *,
        resource: GroupResource | None = None,
        tenant: TenantId | None = None,
        namespace: str | None = None,
    ) -> StoreSnapshot:
        """A snapshot of everything leaves out what cannot be read, and notes it for the feed that follows it.
        A narrower one raises Compacted: that history cannot be served any more."""
        stored = await self.inner.snapshot(at, resource=resource, tenant=tenant, namespace=namespace)
        try:
            records = self._opened_records(stored.records, is_noted=resource is None)
        except UnreadableBody as error:
            raise Compacted(stored.revision) from error
        return StoreSnapshot(stored.revision, records)

    async def pages(self, at: Revision) -> AsyncIterator[Sequence[StoreRecord]]:
        """Leaves out what cannot be read, and notes it for the feed that follows."""
        async for page in self.inner.pages(at):
            yield self._opened_records(page, is_noted=True)

    def _opened_records(self, stored: Sequence[StoreRecord], *, is_noted: bool) -> list[StoreRecord]:
        """The records as written. Those that cannot be read are noted and left out, or raise UnreadableBody."""
        records = []
        for record in stored:
            if not self.stale and self._is_plain(record.key, record.body):
                records.append(record)  # As nearly all are.
                continue
            try:
                body = self._opened(record.key, record.body)
            except UnreadableBody as error:
                if not is_noted:
                    raise
                self.unreadable.add(record.key, str(error))
                continue
            finally:
                if is_noted:
                    self._note_form(record.key, record.body)
            records.append(record if body is record.body else StoreRecord(record.key, record.revision, body))
        return records

    def feed(self, after: Revision) -> AbstractAsyncContextManager[StoreFeed]:
        return self._feed(after)

    @asynccontextmanager
    async def _feed(self, after: Revision) -> AsyncIterator[StoreFeed]:
        async with self.inner.feed(after) as feed:
            yield _OpeningFeed(feed, self)

    def opened(self, event: StoreEvent) -> StoreEvent | None:
        """The event as written. An object that becomes unreadable is shown as deleted."""
        key = event.key
        if not self.stale and not self.unreadable and self._is_plain(key, event.body):
            return event  # As nearly all are.
        is_deleted = event.change is StoreChangeType.DELETED
        try:
            body = self._opened(key, event.body)
        except UnreadableBody as error:
            if is_deleted:
                self.unreadable.discard(key)
            else:
                if self._is_reported:
                    log.error("stored object cannot be read", extra={"key": str(key), "error": str(error)})
                self.unreadable.add(key, str(error))
            if event.change is StoreChangeType.CREATED:
                return None
            return StoreEvent(StoreChangeType.DELETED, key, event.revision, _identity_only(key))
        finally:
            self._note_form(key, None if is_deleted else event.body)
        if self.unreadable:
            self.unreadable.discard(key)
        return event if body is event.body else StoreEvent(event.change, key, event.revision, body)

    def report(self) -> None:
        """Log which objects cannot be read, and which keys they need. From now on, each further one is logged."""
        self._is_reported = True
        keys_by_reason: dict[str, list[Key]] = defaultdict(list)
        for key, reason in self.unreadable:
            keys_by_reason[reason].append(key)
        for reason, keys in keys_by_reason.items():
            examples = " ".join(map(str, keys[:REPORTED_KEYS_MAX]))
            log.error(
                "stored objects cannot be read",
                extra={"error": reason, "objects": len(keys), "examples": examples},
            )

    async def rewrite_stale(self) -> None:
        """Write every stale object again, unchanged, in the form that the configuration asks for.

        Each is written on its own and only if nothing else has changed it meanwhile. Raises StoreError.
        """
        rewritten = 0
        scopes = {(key.resource, key.tenant, key.namespace) for key in self.stale}
        for resource, tenant, namespace in scopes:
            stored = await self.inner.snapshot(resource=resource, tenant=tenant, namespace=namespace)
            providers = self._encryption.providers(resource)
            for record in stored.records:
                if not providers.is_stale(record.body):
                    continue
                try:
                    body = providers.open(record.key, record.body)
                    await self.write([WriteOp(record.key, body, record.revision)])
                    rewritten += 1
                except (UnreadableBody, RevisionMismatch, TenantClosed):
                    # The first is reported elsewhere; after the second, it has been written in the new form; the third
                    # moves away.
                    continue
        if rewritten:
            log.info("stored objects were encrypted again", extra={"objects": rewritten})

    def _sealed(self, op: WriteOp) -> WriteOp:
        providers = self._encryption.providers(op.key.resource)
        if providers.is_plain or op.keeps:
            return op
        body = None if op.body is None else providers.seal(op.key, op.body)
        last = None if op.last is None else providers.seal(op.key, op.last)
        return WriteOp(op.key, body, op.expected, last, after=op.after)

    def _is_plain(self, key: Key, stored: bytes) -> bool:
        """Whether the body is not encrypted, and has not to be."""
        return self._encryption.providers(key.resource).is_plain and not stored.startswith(MARK)

    def _opened(self, key: Key, stored: bytes) -> bytes:
        """Raises UnreadableBody."""
        return (
            stored
            if self._is_plain(key, stored)
            else self._encryption.providers(key.resource).open(key, stored)
        )

    def _note_form(self, key: Key, stored: bytes | None) -> None:
        """Notes whether an object's newest body is stale; None if the object does not exist any more."""
        if stored is not None and self._encryption.providers(key.resource).is_stale(stored):
            self.stale.add(key)
        elif self.stale:
            self.stale.discard(key)


class _OpeningFeed(AsyncIterator[Sequence[StoreEvent]]):
    def __init__(self, feed: StoreFeed, store: EncryptedStore) -> None:
        self._feed = feed
        self._store = store

    @property
    def position(self) -> Revision:
        return self._feed.position

    async def __anext__(self) -> Sequence[StoreEvent]:
        opened = self._store.opened
        return [event for each in await self._feed.__anext__() if (event := opened(each)) is not None]


def _identity_only(key: Key) -> bytes:
    metadata = {"name": key.name, "namespace": key.namespace, "tenant": key.tenant}
    return orjson.dumps({"metadata": metadata})
