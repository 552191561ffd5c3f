"""The store's contract: one append-only log of revisions, and the objects that result from it.

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
"""Operations of one transaction. etcd's default limit is 128, including those that the store adds."""
GUARDS_MAX = 8
"""Further operations that stores add to those of a transaction (`closures`)."""


class StoreError(Exception):
    """Root of the errors that a store raises.

    StoreError
    ├── RevisionMismatch         an operation's `expected` is not the key's revision; nothing was written
    ├── Compacted                the requested revision is older than the retained history
    ├── RevisionInFuture         the requested revision does not exist yet
    ├── FeedLagged               a feed's consumer fell too far behind; it may resume from its last revision
    ├── StoreUnavailable         the store does not work (full disk, closed, no quorum)
    │   └── WriteOutcomeUnknown  …and it is unknown whether the write was committed
    └── StoreOpenError           not a store that this version can use, or another process holds it

    After StoreUnavailable nothing was written. If a disk or a connection failed during a commit, it is
    WriteOutcomeUnknown: the transaction may turn out to be committed, as a whole or not at all.
    """


class RevisionMismatch(StoreError):
    def __init__(self, key: Key, actual: Revision) -> None:
        super().__init__(f"{key} is at revision {actual}")
        self.key = key
        self.actual = actual
        """The key's current revision; `ABSENT` if it does not exist."""


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
    """One operation of a transaction. `body` None deletes; `expected` None accepts any revision.

    Deleting an absent key without `expected` is allowed and creates no event. With `body` None and `last`
    given, the event carries `last` as the object's final state. An operation that `keeps` changes nothing: it
    only requires that the key is at revision `expected`. The transaction's revision is greater than `after`, so
    that revisions go on where those of another store have ended; etcd counts by itself, and ignores it.
    """

    key: Key
    body: bytes | None
    expected: Revision | None = None
    last: bytes | None = None
    keeps: bool = False
    after: Revision = Revision(0)


class StoreChangeType(Enum):
    CREATED = 1
    UPDATED = 2
    DELETED = 3

    # `Enum` hashes in Python, by name.
    __hash__ = object.__hash__


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
    """The objects at one revision."""

    revision: Revision
    records: Sequence[StoreRecord]


class StoreFeed(Protocol):
    """Batches of events. An empty batch means that there are no more events up to `position`."""

    @property
    def position(self) -> Revision:
        """Every event up to this revision was delivered."""
        ...

    def __aiter__(self) -> AsyncIterator[Sequence[StoreEvent]]: ...

    async def __anext__(self) -> Sequence[StoreEvent]: ...


class Store(Protocol):
    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        """Commit `ops` as one transaction and return its revision.

        Raises RevisionMismatch and StoreUnavailable.
        Raises ValueError unless there are one to `OPS_MAX` operations on distinct keys. A transaction that
        changes nothing (it only deletes absent keys) creates no revision and returns the newest one.
        """
        ...

    async def revision(self) -> Revision:
        """The newest committed revision of any writer, read linearizably."""
        ...

    def known_revision(self) -> Revision | None:
        """The same if it is known without asking another process; else None."""
        ...

    async def compacted(self) -> Revision:
        """The newest compacted revision; 0 if none."""
        ...

    async def snapshot(
        self,
        at: Revision | None = None,
        *,
        resource: GroupResource | None = None,
        tenant: TenantId | None = None,
        namespace: str | None = None,
    ) -> StoreSnapshot:
        """The selected objects at revision `at` (None for the newest), in no particular order.

        Raises Compacted and RevisionInFuture.
        """
        ...

    def pages(self, at: Revision) -> AsyncIterator[Sequence[StoreRecord]]:
        """All objects at revision `at`, each once, in parts: they need not be in memory together, and other tasks run
        in between. Iterating raises Compacted, also if `at` is compacted meanwhile, and RevisionInFuture.
        """
        ...

    def feed(self, after: Revision) -> AbstractAsyncContextManager[StoreFeed]:
        """Every event after `after`, in batches of whole transactions, without end.

        Entering raises Compacted if events after `after` may be compacted, RevisionInFuture if it does not
        exist yet. A transaction's events reach every open feed's queue before its `write` returns, and a
        consumer that waits in the feed runs before the writer continues: a cache that it maintains then has
        the writer's own write. Iterating raises FeedLagged if the consumer leaves too many events unread,
        Compacted if history was compacted before it was read, StoreUnavailable if the store is closed.
        """
        ...

    async def compact(self, upto: Revision) -> None:
        """Remove history up to `upto`; the newest body of every existing key stays. Raises RevisionInFuture.

        Returns when the space is free again. Does nothing if `upto` is already compacted.
        """
        ...

    async def close(self) -> None:
        """Close the store: pending calls raise StoreUnavailable, acknowledged writes stay. Closing twice is
        allowed."""
        ...


def check_transaction(ops: Sequence[WriteOp]) -> None:
    """Raise ValueError unless `ops` has the form that `Store.write` requires."""
    count = len(ops)
    if count == 1:
        return
    if not 0 < count <= OPS_MAX + GUARDS_MAX or sum(not op.keeps for op in ops) > OPS_MAX:
        raise ValueError(f"a transaction has 1 to {OPS_MAX} operations, not {count}")
    if len({op.key for op in ops}) != count:
        raise ValueError("the keys of a transaction must be distinct")
