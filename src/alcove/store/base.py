"""The store's promises: one append-only log of revisions, and the objects it adds up to.

- *ordered*: events come in revision order, in every feed.
- *unique*: a revision belongs to one transaction, and an event is delivered once to a feed.
- *atomic*: the operations of a transaction all happen, at one revision, or none does.
- *resumable*: a feed from any uncompacted revision misses nothing.
- *bookmarkable*: `revision()` only grows, and every event up to it is, or will be, in a feed.
- *durable*: once `write` returned, the transaction survives `kill -9` and power loss.
- *linearizable* per key: `expected` is compared with the newest revision of the key.

Bodies are opaque bytes. No implementation polls.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Protocol

from msgspec import Struct

from alcove.api.ids import GroupResource, Key, Revision, TenantId

ABSENT = Revision(0)
"""As `WriteOp.expected`: the key must not exist."""

OPS_MAX = 100
"""Operations of one transaction. etcd takes 128 unless told otherwise, the store's own included."""


class StoreError(Exception):
    """Root of what a store raises.

    StoreError
    ├── Mismatch     an operation's `expected` was not what the store holds; nothing was written
    ├── Compacted    the asked revision is older than what is kept
    ├── Ahead        the asked revision has not happened yet
    ├── Lagged       a feed's consumer fell too far behind; it resumes from its last revision
    ├── Unavailable  the store cannot answer (full disk, closed, no quorum)
    │   └── Unsure   …nor say whether it took the write
    └── CannotOpen   what is there is not a store this version can use, or another process holds it

    After Unavailable nothing was written. Where a disk or a connection failed in the middle of a commit it
    is Unsure: the transaction may still turn out to have happened, as a whole or not at all.
    """


class RevisionMismatch(StoreError):
    def __init__(self, key: Key, actual: Revision) -> None:
        super().__init__(f"{key} is at revision {actual}")
        self.key = key
        self.actual = actual
        """The key's revision now; `ABSENT` if there is none."""


class Compacted(StoreError):
    def __init__(self, compacted: Revision) -> None:
        super().__init__(f"revisions up to {compacted} are compacted")
        self.compacted = compacted


class RevisionInFuture(StoreError):
    def __init__(self, newest: Revision) -> None:
        super().__init__(f"the newest revision is {newest}")
        self.newest = newest


class FeedLagged(StoreError):
    pass


class StoreUnavailable(StoreError):
    pass


class WriteOutcomeUnknown(StoreUnavailable):
    pass


class StoreOpenError(StoreError):
    pass


class WriteOp(Struct, frozen=True):
    """One change of a transaction. `body` None deletes; `expected` None takes whatever is there.

    Deleting an absent key without `expected` is allowed and is no event. With `body` None and
    `last` given, the event carries `last` as the object's final state. One that `keeps` changes nothing:
    the others happen only if the key is as `expected`.
    """

    key: Key
    body: bytes | None
    expected: Revision | None = None
    last: bytes | None = None
    keeps: bool = False


class StoreChangeType(Enum):
    CREATED = 1
    UPDATED = 2
    DELETED = 3


class StoreEvent(Struct, frozen=True):
    change: StoreChangeType
    key: Key
    revision: Revision
    body: bytes
    """The new body; for DELETED the last one."""


class StoreRecord(Struct, frozen=True):
    key: Key
    revision: Revision
    body: bytes


class StoreSnapshot(Struct, frozen=True):
    """Everything at one revision."""

    revision: Revision
    records: Sequence[StoreRecord]


class StoreFeed(Protocol):
    """What `Store.feed` gives. A batch without events tells that there are none up to `position`."""

    @property
    def position(self) -> Revision:
        """Every event up to here was given."""
        ...

    def __aiter__(self) -> AsyncIterator[Sequence[StoreEvent]]: ...

    async def __anext__(self) -> Sequence[StoreEvent]: ...


class Store(Protocol):
    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        """Commits `ops` as one transaction and returns its revision. Raises Mismatch or Unavailable.

        One to `OPS_MAX` operations on distinct keys, else ValueError. A transaction that changes
        nothing (it deletes only what is absent) takes no revision and returns the newest one.
        """
        ...

    async def revision(self) -> Revision:
        """The newest revision committed anywhere, read linearizably."""
        ...

    async def compacted(self) -> Revision:
        """The newest revision that is compacted; 0 if none."""
        ...

    async def snapshot(
        self,
        at: Revision | None = None,
        *,
        resource: GroupResource | None = None,
        tenant: TenantId | None = None,
        namespace: str | None = None,
    ) -> StoreSnapshot:
        """What existed at `at` (None: now), narrowed, in no particular order. Raises Compacted, Ahead."""
        ...

    def feed(self, after: Revision) -> AbstractAsyncContextManager[StoreFeed]:
        """Every event after `after`, in batches, each batch whole transactions; never ends by itself.

        Entering raises Compacted when events after `after` may be gone, Ahead when it is in the future.
        A transaction's events reach every open feed's queue before its `write` returns, and a consumer
        that waits in the feed runs before the writer does: what it keeps has the writer's own write.
        Iterating raises Lagged when the consumer leaves too many events unread, Compacted when history
        was compacted before it was read, Unavailable when the store is closed.
        """
        ...

    async def compact(self, upto: Revision) -> None:
        """Forgets history up to `upto`; the newest body of every existing key stays. Raises Ahead.

        Returns when the space is free again. What is compacted already is no error.
        """
        ...

    async def close(self) -> None:
        """Fails what still waits with Unavailable; what was acknowledged stays. Closing twice is allowed."""
        ...


def check_transaction(ops: Sequence[WriteOp]) -> None:
    """Raises ValueError unless `ops` has the form that `Store.write` asks for."""
    count = len(ops)
    if count == 1:
        return
    if not 0 < count <= OPS_MAX:
        raise ValueError(f"a transaction has 1 to {OPS_MAX} operations, not {count}")
    if len({op.key for op in ops}) != count:
        raise ValueError("a transaction names every key once")
