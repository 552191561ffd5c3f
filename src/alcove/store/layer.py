"""A store on top of another one, which does everything that a subclass does not do differently."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from alcove.api.ids import GroupResource, Revision, TenantId
from alcove.store.base import Store, StoreFeed, StoreRecord, StoreSnapshot, WriteOp


class StoreLayer:
    """`Store` on another store."""

    def __init__(self, store: Store) -> None:
        self.inner = store

    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        return await self.inner.write(ops)

    async def revision(self) -> Revision:
        return await self.inner.revision()

    def known_revision(self) -> Revision | None:
        return self.inner.known_revision()

    async def compacted(self) -> Revision:
        return await self.inner.compacted()

    async def snapshot(
        self,
        at: Revision | None = None,
        *,
        resource: GroupResource | None = None,
        tenant: TenantId | None = None,
        namespace: str | None = None,
    ) -> StoreSnapshot:
        return await self.inner.snapshot(at, resource=resource, tenant=tenant, namespace=namespace)

    def pages(self, at: Revision) -> AsyncIterator[Sequence[StoreRecord]]:
        return self.inner.pages(at)

    def feed(self, after: Revision) -> AbstractAsyncContextManager[StoreFeed]:
        return self.inner.feed(after)

    async def compact(self, upto: Revision) -> None:
        await self.inner.compact(upto)

    async def close(self) -> None:
        await self.inner.close()
