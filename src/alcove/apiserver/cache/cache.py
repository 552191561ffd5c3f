"""The cache: follows the store's feed, serves reads, and passes events to its listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import perf_counter

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.tenant_shards import TenantShard
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.cache.collections import CacheCollection, IndexedObjects
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType, IndexedValue
from alcove.apiserver.cache.history import Histories
from alcove.apiserver.cache.recent import RecentEntries
from alcove.apiserver.cache.snapshot import CacheSnapshot, Namespaces
from alcove.store.base import Compacted, FeedLagged, Store, StoreChangeType, StoreEvent

HISTORY_EVENTS_LOADED_MAX = 20_000
"""Events of all tenants that are loaded at the start; a watch that resumes before them gets `Expired`."""

EVENTS_AT_ONCE_MAX = 8
"""Events that are applied before it is looked how long they took."""
APPLY_SECONDS = 0.002
"""Events that took longer are followed by other work of the loop."""

_KINDS = {
    StoreChangeType.CREATED: CacheEventType.ADDED,
    StoreChangeType.UPDATED: CacheEventType.MODIFIED,
    StoreChangeType.DELETED: CacheEventType.DELETED,
}

Listener = Callable[[Sequence[CacheEvent]], None]


class Cache:
    """Implements `CacheReader`. `async with` fills it from the store and follows the store's feed."""

    def __init__(
        self, store: Store, listener: Listener, buffers: TenantBuffers | None = None, workers: int = 1
    ) -> None:
        """`workers`: the processes of this server, each of which has such a cache."""
        self._store = store
        self._listener = listener
        self._histories = Histories(buffers or TenantBuffers(), workers=workers)
        self._collections: dict[GroupResource, CacheCollection] = {}
        self._recent = RecentEntries()
        self._stored_bytes: dict[TenantId, int] = {}
        self._floor = Revision(0)
        self._tenant_floors: dict[TenantId, Revision] = {}
        """History of these tenants begins after a revision: they came from another store."""
        self._waiters: list[tuple[Revision, asyncio.Future[None]]] = []
        self._asking: list[asyncio.Future[Revision]] = []
        """Those that wait for a read of the store's revision that begins after they came."""
        self._reading: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._packer: asyncio.Task[None] | None = None
        self._loaded: asyncio.Future[None] | None = None
        self.revision = Revision(0)
        self.forgotten = Revision(0)
        """History up to this revision was dropped; lists as of an older one are refused."""

    async def __aenter__(self) -> Cache:
        self._loaded = asyncio.get_running_loop().create_future()
        self._follower = asyncio.create_task(self._follow(), name="watch cache")
        self._packer = asyncio.create_task(self._recent.keep_small(), name="watch cache packing")
        await asyncio.wait([self._follower, self._loaded], return_when=asyncio.FIRST_COMPLETED)
        if self._follower.done():
            self._packer.cancel()
            await self._follower
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._follower is not None
        for task in (self._follower, self._packer):
            assert task is not None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def lost(self) -> None:
        """Never returns: raises the error that ended the following of the store. The cache is stale from then
        on."""
        assert self._follower is not None
        await asyncio.shield(self._follower)

    async def _follow(self) -> None:
        newest = await self._load()
        while True:
            with suppress(FeedLagged):
                await self._apply_feed(newest)

    async def _load(self) -> Revision:
        """Loads the oldest state that the store retains, so that watches can resume across a restart. Returns the
        newest revision."""
        newest = await self._store.revision()
        oldest = Revision(max(await self._store.compacted(), newest - HISTORY_EVENTS_LOADED_MAX, 0))
        try:
            await self._load_state(oldest)
        except Compacted:
            # By another server, while it was read. What is newest now is retained long enough to be read.
            newest = await self._store.revision()
            await self._load_state(newest)
        return newest

    async def _load_state(self, at: Revision) -> None:
        """Raises Compacted."""
        self._collections.clear()
        self._stored_bytes.clear()
        self._recent.clear()
        self._floor = self.revision = at
        async for page in self._store.pages(at):
            for record in page:
                entry = CacheEntry(record.key, record.revision, record.body, self._recent)
                self._recent.keep_whole(entry)
                self._collection(record.key.resource).load(entry)
                self._count_stored(entry.key.tenant, entry.length)
            # Pages may be there already, and then nothing waits: whoever asks meanwhile gets an answer.
            await asyncio.sleep(0)

    async def _apply_feed(self, newest: Revision) -> None:
        async with self._store.feed(self.revision) as feed:
            self._check_loaded(newest)
            async for batch in feed:
                await self._apply_in_parts(batch, feed.position)
                self._check_loaded(newest)

    async def _apply_in_parts(self, batch: Sequence[StoreEvent], upto: Revision) -> None:
        """Applies a batch, and lets other tasks run in between if its events take long: each may have
        hundreds of watchers."""
        first = 0
        while len(batch) - first > EVENTS_AT_ONCE_MAX:
            end = first + EVENTS_AT_ONCE_MAX
            while end < len(batch) and batch[end].revision == batch[end - 1].revision:
                end += 1  # What was written together becomes visible together.
            if end == len(batch):
                break
            began = perf_counter()
            self._apply(batch[first:end], batch[end - 1].revision)
            first = end
            if perf_counter() - began > APPLY_SECONDS:
                await asyncio.sleep(0)
        self._apply(batch[first:], upto)

    def _check_loaded(self, newest: Revision) -> None:
        if self.revision >= newest and self._loaded is not None and not self._loaded.done():
            self._loaded.set_result(None)

    def _apply(self, batch: Sequence[StoreEvent], upto: Revision) -> None:
        events: list[CacheEvent] = []
        for change in batch:
            entry = CacheEntry(change.key, change.revision, change.body, self._recent)
            self._recent.keep_whole(entry)
            collection = self._collection(change.key.resource)
            event = collection.apply(_KINDS[change.change], entry)
            events.append(event)
            before = event.previous.length if event.previous is not None else 0
            after = entry.length if event.kind is not CacheEventType.DELETED else 0
            self._count_stored(entry.key.tenant, after - before)
        self.revision = upto
        if events:
            self._listener(events)
        for event in events:
            event.settle()
        if self._waiters:
            self._wake()

    def _count_stored(self, tenant: TenantId, growth: int) -> None:
        if count := self._stored_bytes.get(tenant, 0) + growth:
            self._stored_bytes[tenant] = count
        else:
            self._stored_bytes.pop(tenant, None)

    def stored_bytes(self, tenant: TenantId) -> int:
        """The bytes of all of the tenant's objects."""
        return self._stored_bytes.get(tenant, 0)

    def forget(self, upto: Revision) -> None:
        """Drops history up to a revision, and the collections of tenants that have no objects left."""
        self.forgotten = max(self.forgotten, upto)
        for collection in self._collections.values():
            collection.forget(upto)

    def begin_history(self, tenant: TenantId, after: Revision) -> None:
        """What is older is not the tenant's own: neither watches nor lists go back there."""
        self._tenant_floors[tenant] = after

    def has_history(self, tenant: TenantId | None, revision: Revision) -> bool:
        """Whether lists as of the revision can be served, as far as the store has it."""
        return revision >= self.forgotten and revision >= self._tenant_floor(tenant)

    def _tenant_floor(self, tenant: TenantId | None) -> Revision:
        return self._tenant_floors.get(tenant, Revision(0)) if tenant is not None else Revision(0)

    def _collection(self, resource: GroupResource) -> CacheCollection:
        collection = self._collections.get(resource)
        if collection is None:
            collection = self._collections[resource] = CacheCollection(self._floor, self._histories)
        return collection

    async def reached(self, revision: Revision) -> None:
        """Waits until every event up to `revision` is in the cache."""
        if self.revision < revision:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((revision, waiter))
            await waiter

    def has_newest(self) -> bool:
        """Whether every write that any server has acknowledged is in the cache. False, too, if that is not known
        without asking another process."""
        newest = self._store.known_revision()
        return newest is not None and self.revision >= newest

    async def catch_up(self) -> None:
        """Waits until every write that any server acknowledged before this call is in the cache.

        Concurrent callers share one read of the store's revision: however many requests wait, the store gets
        at most one such read at a time. Raises StoreUnavailable.
        """
        await self.reached(await self._newest_revision())

    async def _newest_revision(self) -> Revision:
        # A read that was started before this call may return a revision that is too old for it.
        asking: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()
        self._asking.append(asking)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_revisions())
        return await asking

    async def _read_revisions(self) -> None:
        """Reads the store's revision as long as somebody asks."""
        try:
            while self._asking:
                asking, self._asking = self._asking, []
                try:
                    newest = await self._store.revision()
                except Exception as error:
                    for each in asking:
                        if not each.done():
                            each.set_exception(error)
                else:
                    for each in asking:
                        if not each.done():
                            each.set_result(newest)
        finally:
            self._reading = None

    def _wake(self) -> None:
        ready = [waiter for revision, waiter in self._waiters if revision <= self.revision]
        self._waiters = [pair for pair in self._waiters if pair[0] > self.revision]
        for waiter in ready:
            if not waiter.done():
                waiter.set_result(None)

    # Reading

    def entry(self, key: Key) -> CacheEntry | None:
        return self.find(key.tenant, key.resource, key.namespace, key.name)

    def find(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> CacheEntry | None:
        """As `entry`, without a Key: this is called many times for each request."""
        collection = self._collections.get(resource)
        tenant_objects = collection.tenants.get(tenant) if collection is not None else None
        return tenant_objects.get(namespace, name) if tenant_objects is not None else None

    def has(self, key: Key) -> bool:
        return self.entry(key) is not None

    def entries(
        self,
        tenant: TenantId | None,
        resource: GroupResource,
        namespace: str | None = None,
        after: tuple[str, str, str] = ("", "", ""),
        shard: TenantShard | None = None,
    ) -> Iterator[CacheEntry]:
        """Entries in order of tenant, namespace, name; of all tenants if `tenant` is None, or of those of a shard."""
        collection = self._collections.get(resource)
        return collection.ordered(tenant, namespace, after, shard) if collection else iter(())

    def indexed_entries(
        self,
        tenant: TenantId | None,
        resource: GroupResource,
        value: IndexedValue,
        shard: TenantShard | None = None,
    ) -> Iterator[CacheEntry]:
        """Entries with a value of an indexed field, in order of tenant, namespace, name; of all tenants if
        `tenant` is None, or of those of a shard. The cost depends on their number only."""
        collection = self._collections.get(resource)
        return collection.indexed(tenant, value, shard) if collection else iter(())

    def changed(self, tenant: TenantId | None, resource: GroupResource) -> Revision:
        """The revision of the last change of the tenant's objects of this resource."""
        collection = self._collections.get(resource)
        if collection is None:
            return Revision(0)
        if tenant is None:
            return collection.changed
        tenant_objects = collection.tenants.get(tenant)
        return tenant_objects.changed if tenant_objects else Revision(0)

    def history(
        self,
        tenant: TenantId | None,
        resource: GroupResource,
        after: Revision,
        shard: TenantShard | None = None,
    ) -> list[CacheEvent] | None:
        """Events after a revision, in order; None if some were dropped."""
        if self._tenant_floors and after < self._tenant_floor(tenant):
            return None
        collection = self._collections.get(resource)
        if collection is None:
            return [] if after >= self._floor else None
        return collection.history(tenant, after, shard)

    def count(self, tenant: TenantId | None, resource: GroupResource, namespace: str | None = None) -> int:
        collection = self._collections.get(resource)
        if collection is None:
            return 0
        if tenant is None and namespace is None:
            return collection.size
        if tenant is None:
            return sum(tenant_objects.count(namespace) for tenant_objects in collection.tenants.values())
        tenant_objects = collection.tenants.get(tenant)
        return tenant_objects.count(namespace) if tenant_objects else 0

    def counts(self) -> dict[GroupResource, int]:
        """Objects per resource, for metrics."""
        return {resource: self.count(None, resource) for resource in self._collections}

    def resources(self, tenant: TenantId) -> list[GroupResource]:
        """The resources of which the tenant has an object."""
        return [resource for resource in self._collections if self.count(tenant, resource)]

    # reader.CacheReader

    def get(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> Object | None:
        entry = self.find(tenant, resource, namespace, name)
        return entry.object if entry is not None else None

    def list(
        self, tenant: TenantId, resource: GroupResource, namespace: str | None = None
    ) -> Iterable[Object]:
        return (entry.object for entry in self.entries(tenant, resource, namespace))

    def snapshot(self, tenant: TenantId, resources: Sequence[GroupResource]) -> CacheSnapshot:
        found: dict[GroupResource, Namespaces] = {}
        for resource in resources:
            collection = self._collections.get(resource)
            tenant_objects = collection.tenants.get(tenant) if collection else None
            found[resource] = tenant_objects.by_namespace() if tenant_objects else {}
        return CacheSnapshot(tenant, found)

    def indexed(self, tenant: TenantId, resource: GroupResource, value: str) -> Iterable[Object]:
        group = self._group(tenant, resource, IndexedValue(0, value))
        return [entry.object for entry in group.entries.values()] if group else []

    def indexed_generation(self, tenant: TenantId, resource: GroupResource, value: str) -> int:
        group = self._group(tenant, resource, IndexedValue(0, value))
        return group.changed if group else 0

    def indexed_values(self, tenant: TenantId, resource: GroupResource) -> Sequence[str]:
        """The values of the resource's first indexed field that the tenant's objects have, in no order."""
        collection = self._collections.get(resource)
        tenant_objects = collection.tenants.get(tenant) if collection else None
        return tenant_objects.indexed_values(0) if tenant_objects else ()

    def _group(self, tenant: TenantId, resource: GroupResource, value: IndexedValue) -> IndexedObjects | None:
        collection = self._collections.get(resource)
        tenant_objects = collection.tenants.get(tenant) if collection else None
        return tenant_objects.indexed(value) if tenant_objects else None

    def generation(self, tenant: TenantId, resource: GroupResource) -> int:
        return self.changed(tenant, resource)

    def generations(self, tenant: TenantId, resources: Sequence[GroupResource]) -> tuple[int, ...]:
        collections = self._collections
        found = []
        for resource in resources:
            collection = collections.get(resource)
            tenant_objects = collection.tenants.get(tenant) if collection is not None else None
            found.append(tenant_objects.changed if tenant_objects is not None else 0)
        return tuple(found)

    def tenants(self, resource: GroupResource) -> Iterable[TenantId]:
        collection = self._collections.get(resource)
        if collection is None:
            return []
        return [tenant for tenant, tenant_objects in collection.tenants.items() if tenant_objects.count(None)]
