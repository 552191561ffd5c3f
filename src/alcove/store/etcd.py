"""The distributed store: an etcd cluster of 3.4 or newer, shared by any number of API servers.

Revisions are etcd's revisions. A write returns when its events are in the queues of this process' feeds. The
cluster may hold other data: all keys of the store are below one prefix.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from alcove.api.ids import GroupResource, Revision, TenantId
from alcove.store import etcd_wire as wire
from alcove.store.base import (
    ABSENT,
    Compacted,
    RevisionInFuture,
    RevisionMismatch,
    StoreOpenError,
    StoreRecord,
    StoreSnapshot,
    StoreUnavailable,
    WriteOp,
    WriteOutcomeUnknown,
    check_transaction,
)
from alcove.store.etcd_client import EtcdClient, RevisionAhead, RevisionCompacted
from alcove.store.etcd_feed import EtcdFeed
from alcove.store.etcd_keys import EtcdKeys
from alcove.store.grpc_channel import Tls

OBJECTS_PER_PAGE = 500
PUBLISH_SECONDS_MAX = 10.0
"""How long a write waits for its own event. After that, etcd's watches are considered broken."""


class EtcdStore:
    """`Store` on etcd. Created by `open`."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys) -> None:
        self._client = client
        self._keys = keys
        self._feeds: set[EtcdFeed] = set()
        self._compacted = ABSENT
        """A lower bound of the compacted revision; another server may have compacted more."""

    @classmethod
    async def open(
        cls, endpoints: Sequence[str], *, prefix: str = "/registry", tls: Tls | None = None
    ) -> "EtcdStore":
        """`endpoints` are `host:port`. Raises StoreOpenError if none of them responds."""
        client = EtcdClient(endpoints, tls)
        store = cls(client, EtcdKeys(prefix))
        try:
            await store.revision()
        except StoreUnavailable as error:
            await client.close()
            raise StoreOpenError(str(error)) from error
        return store

    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        check_transaction(ops)
        response = await self._client.txn(self._transaction(ops))
        if not response.succeeded:
            raise _mismatch(ops, response)
        revision = Revision(response.header.revision)
        if _changed_something(ops, response):
            await self._published(revision)
        return revision

    async def revision(self) -> Revision:
        response = await self._client.range(wire.RangeRequest(key=self._keys.nothing))
        return Revision(response.header.revision)

    def known_revision(self) -> Revision | None:
        return None

    async def compacted(self) -> Revision:
        # etcd does not report it, but rejects reads of compacted revisions: search for the bound.
        low = self._compacted
        if not await self._is_compacted(Revision(max(low, 1))):
            return low
        high = await self.revision()
        while high - low > 1:
            middle = Revision((low + high) // 2)
            if await self._is_compacted(middle):
                low = middle
            else:
                high = middle
        self._compacted = max(self._compacted, high)
        return self._compacted

    async def snapshot(
        self,
        at: Revision | None = None,
        *,
        resource: GroupResource | None = None,
        tenant: TenantId | None = None,
        namespace: str | None = None,
    ) -> StoreSnapshot:
        if at is not None:
            await self._check(at)
        if at == ABSENT:
            return StoreSnapshot(ABSENT, [])
        start, end = self._keys.narrowed(resource, tenant, namespace)
        while True:
            try:
                pages = [page async for page in self._ranges(start, end, at)]
                break
            except RevisionCompacted as error:
                # The revision was compacted while its pages were read: read the newest one again.
                if at is not None:
                    raise Compacted(await self.compacted()) from error
        records = [
            StoreRecord(key, Revision(pair.mod_revision), pair.value)
            for page in pages
            for pair in page.kvs
            if tenant in (None, (key := self._keys.key(pair.key)).tenant)
            and namespace in (None, key.namespace)
        ]
        return StoreSnapshot(Revision(pages[0].header.revision) if at is None else at, records)

    async def pages(self, at: Revision) -> AsyncIterator[Sequence[StoreRecord]]:
        await self._check(at)
        if at == ABSENT:
            return
        start, end = self._keys.narrowed(None, None, None)
        try:
            async for page in self._ranges(start, end, at):
                yield [
                    StoreRecord(self._keys.key(pair.key), Revision(pair.mod_revision), pair.value)
                    for pair in page.kvs
                ]
        except RevisionCompacted as error:
            raise Compacted(await self.compacted()) from error

    def feed(self, after: Revision) -> EtcdFeed:
        return EtcdFeed(self._client, self._keys, after, self._check, self._feeds)

    async def compact(self, upto: Revision) -> None:
        if upto <= await self.compacted():
            return
        # The last bodies of deleted objects may be secrets: they are removed with the history.
        start, end = self._keys.lasts
        forget = wire.TxnRequest()
        forget.success.add(request_delete_range=wire.DeleteRangeRequest(key=start, range_end=end))
        await self._client.txn(forget)
        try:
            await self._client.compact(wire.CompactionRequest(revision=upto, physical=True))
        except RevisionCompacted:
            # Another server compacted first.
            pass
        except RevisionAhead as error:
            raise RevisionInFuture(await self.revision()) from error
        self._compacted = max(self._compacted, upto)

    async def close(self) -> None:
        for feed in list(self._feeds):
            feed.end(StoreUnavailable("the store is closed"))
        await self._client.close()

    async def _check(self, revision: Revision) -> None:
        """Raise Compacted or RevisionInFuture unless `revision` can be read."""
        try:
            await self._at(Revision(max(revision, 1)))
        except RevisionCompacted as error:
            raise Compacted(await self.compacted()) from error
        except RevisionAhead as error:
            raise RevisionInFuture(await self.revision()) from error

    async def _is_compacted(self, revision: Revision) -> bool:
        try:
            await self._at(revision)
        except RevisionCompacted:
            return True
        return False

    async def _at(self, revision: Revision) -> None:
        await self._client.range(wire.RangeRequest(key=self._keys.nothing, revision=revision))

    async def _ranges(self, start: bytes, end: bytes, at: Revision | None) -> AsyncIterator[wire.Message]:
        more = True
        while more:
            page = await self._client.range(
                wire.RangeRequest(key=start, range_end=end, limit=OBJECTS_PER_PAGE, revision=at or 0)
            )
            yield page
            more = page.more
            at = at or Revision(page.header.revision)
            if page.kvs:
                start = page.kvs[-1].key + b"\0"

    def _transaction(self, ops: Sequence[WriteOp]) -> wire.Message:
        request = wire.TxnRequest()
        for position, op in enumerate(ops):
            path = self._keys.path(op.key)
            if op.expected is not None:
                request.compare.append(_compare(path, wire.EQUAL, op.expected))
                request.failure.add(request_range=wire.RangeRequest(key=path, keys_only=True))
            if op.keeps:
                continue
            if op.body is not None:
                request.success.add(request_put=wire.PutRequest(key=path, value=op.body))
            elif op.last is None:
                request.success.add(request_delete_range=wire.DeleteRangeRequest(key=path))
            else:
                request.success.add(request_txn=self._delete_with_last(path, op.last, position))
        return request

    def _delete_with_last(self, path: bytes, last: bytes, position: int) -> wire.Message:
        """A nested transaction, so that the last body of an absent key is not written."""
        put = wire.PutRequest(key=self._keys.last(position), value=msgspec.msgpack.encode((path, last)))
        delete = wire.TxnRequest(compare=[_compare(path, wire.GREATER, ABSENT)])
        delete.success.add(request_delete_range=wire.DeleteRangeRequest(key=path))
        delete.success.add(request_put=put)
        return delete

    async def _published(self, revision: Revision) -> None:
        try:
            async with asyncio.timeout(PUBLISH_SECONDS_MAX):
                for feed in list(self._feeds):
                    await feed.reached(revision)
        except TimeoutError as error:
            raise WriteOutcomeUnknown(
                "etcd: the write was committed, but no watch has delivered it"
            ) from error


def _compare(path: bytes, result: int, revision: Revision) -> wire.Message:
    return wire.Compare(result=result, target=wire.MOD_REVISION, key=path, mod_revision=revision)


def _mismatch(ops: Sequence[WriteOp], response: wire.Message) -> RevisionMismatch:
    compared = [op for op in ops if op.expected is not None]
    for op, result in zip(compared, response.responses, strict=True):
        pairs = result.response_range.kvs
        actual = Revision(pairs[0].mod_revision) if pairs else ABSENT
        if actual != op.expected:
            return RevisionMismatch(op.key, actual)
    raise AssertionError("etcd rejected a transaction although all comparisons hold")


def _changed_something(ops: Sequence[WriteOp], response: wire.Message) -> bool:
    changing = [op for op in ops if not op.keeps]
    return any(
        op.body is not None or result.response_delete_range.deleted or result.response_txn.succeeded
        for op, result in zip(changing, response.responses, strict=True)
    )
