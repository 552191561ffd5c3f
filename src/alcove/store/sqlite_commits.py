"""Group commit: writes that arrive during a commit are queued and share the next one.

    write ─▶ queue ─▶ plan ─▶ append (in the worker process) ─▶ publish: feeds first, then writers

At most one commit is in progress, and the next plan is made only after it has finished: plans see only
durable data. Chores (compaction) alternate with commits.
"""

import asyncio
import sqlite3
from asyncio import AbstractEventLoop, Future, Task
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from alcove.api.ids import Revision
from alcove.store.base import (
    RevisionMismatch,
    StoreUnavailable,
    WriteOp,
    WriteOutcomeUnknown,
    check_transaction,
)
from alcove.store.feed import Feeds
from alcove.store.sqlite_channel import Channel, StorageFailed
from alcove.store.sqlite_plan import CommitPlan, Heads, plan

OPS_PER_COMMIT_MAX = 512
BODY_BYTES_PER_COMMIT_MAX = 8 << 20
WRITES_QUEUED_MAX = 16_384

_TEMPORARY_ERRORS = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM}
"""Temporary errors that left the file unchanged. After any other error, the content of the file is unknown
until it is opened again."""

Observe = Callable[[float, int], None]
"""Called with the duration in seconds and the number of transactions of each commit."""

ReadHeads = Callable[[], Awaitable[Heads]]
"""Reads the newest row of every key. No commit is made meanwhile."""


class _Write(NamedTuple):
    ops: Sequence[WriteOp]
    result: "Future[Revision]"


class _Chore(NamedTuple):
    request: tuple[object, ...]
    result: "Future[Any]"


class Commits:
    """Queues all writes and chores for the worker's writing thread."""

    def __init__(
        self, loop: AbstractEventLoop, channel: Channel, read_heads: ReadHeads, feeds: Feeds, observe: Observe
    ) -> None:
        """`read_heads` is called once, before the first commit."""
        self._loop = loop
        self._channel = channel
        self._read_heads = read_heads
        self._heads: Heads | None = None
        """None until they are read."""
        self._reading_heads: Task[None] | None = None
        self._feeds = feeds
        self._observe = observe
        self._queued: deque[_Write] = deque()
        self._chores: deque[_Chore] = deque()
        self._chore_next = False
        self._singly = 0
        """The number of queued writes that get a commit of their own."""
        self._pump_due = False
        self._busy = False
        self._idle: Future[None] | None = None
        self.refusal: str | None = None
        """The error with which writes are rejected; None if they are accepted."""

    def submit(self, ops: Sequence[WriteOp]) -> "Future[Revision]":
        """Queue a transaction. Raises ValueError and StoreUnavailable at once; what `Store.write` raises is raised by
        the result."""
        check_transaction(ops)
        if self.refusal is not None:
            raise StoreUnavailable(self.refusal)
        if len(self._queued) >= WRITES_QUEUED_MAX:
            raise StoreUnavailable(f"too many pending writes ({WRITES_QUEUED_MAX})")
        result: Future[Revision] = self._loop.create_future()
        self._queued.append(_Write(ops, result))
        self._schedule()
        return result

    async def chore(self, *request: object) -> Any:
        """Send a request to the worker between commits and return its reply."""
        if self.refusal is not None:
            raise StoreUnavailable(self.refusal)
        chore = _Chore(request, self._loop.create_future())
        self._chores.append(chore)
        self._schedule()
        return await chore.result

    @property
    def is_prepared(self) -> bool:
        """Whether the heads are or are being read."""
        return self._reading_heads is not None

    def prepare(self) -> None:
        """Read the heads, unless they are or are being read: the first commit needs them."""
        if self._reading_heads is None:
            self._reading_heads = self._loop.create_task(self._prepare())

    async def _prepare(self) -> None:
        try:
            self._heads = await self._read_heads()
        except Exception as error:  # Whatever it is, no write may wait for ever.
            self._refuse_all(f"the store cannot be read: {error}")
        self._schedule()

    async def close(self, message: str) -> None:
        """Reject pending writes; return when the current commit is done."""
        self._refuse_all(message)
        if self._reading_heads is not None and not self._reading_heads.done():
            self._reading_heads.cancel()
            await asyncio.wait([self._reading_heads])
        if self._busy:
            self._idle = self._loop.create_future()
            await self._idle

    def _schedule(self) -> None:
        # Not immediately: other writes in this loop iteration share the commit.
        if not self._busy and not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send the next commit or chore to the worker."""
        self._pump_due = False
        if self._busy:
            return
        if self._chores and (self._chore_next or not self._queued):
            self._chore_next = False
            self._busy = True
            chore = self._chores.popleft()
            self._channel.submit(partial(self._chore_done, chore), *chore.request)
        elif self._queued and self._heads is not None:
            self._chore_next = True
            self._commit(self._take(), self._heads)
        elif self._queued:
            self.prepare()

    def _take(self) -> list[_Write]:
        """The queued writes that share the next commit."""
        batch: list[_Write] = []
        ops_remaining, bytes_remaining = OPS_PER_COMMIT_MAX, BODY_BYTES_PER_COMMIT_MAX
        if self._singly:
            self._singly -= 1
            ops_remaining = 1
        while self._queued and ops_remaining > 0 and bytes_remaining > 0:
            write = self._queued.popleft()
            batch.append(write)
            for op in write.ops:
                ops_remaining -= 1
                bytes_remaining -= len(op.body or b"")
        return batch

    def _commit(self, writes: Sequence[_Write], heads: Heads) -> None:
        planned = plan([write.ops for write in writes], heads, self._feeds.revision)
        if not planned.events:
            self._settle(writes, planned)
            self._schedule()
            return
        self._busy = True
        done = partial(self._committed, writes, planned, perf_counter())
        self._channel.submit(done, "append", planned.values, planned.wanted)

    def _committed(
        self,
        writes: Sequence[_Write],
        planned: CommitPlan,
        started: float,
        bodies: dict[int, bytes],
        error: Exception | None,
    ) -> None:
        if error is None:
            self._observe(perf_counter() - started, len(writes))
            planned.fill(bodies)
            self._feeds.publish(planned.events, planned.revision)
            # Start the next commit first: it is written to disk while the writers of this one continue.
            self._next()
            self._settle(writes, planned)
        else:
            assert self._heads is not None
            planned.undo(self._heads)
            self._undone(writes, error)
            self._next()

    def _settle(self, writes: Sequence[_Write], planned: CommitPlan) -> None:
        for write, outcome in zip(writes, planned.outcomes, strict=True):
            if write.result.done():
                continue
            if isinstance(outcome, RevisionMismatch):
                write.result.set_exception(outcome)
            else:
                write.result.set_result(outcome)

    def _undone(self, writes: Sequence[_Write], error: Exception) -> None:
        if isinstance(error, StorageFailed):
            is_known = error.code & 0xFF in _TEMPORARY_ERRORS
            _refuse(writes, self._failed(error), StoreUnavailable if is_known else WriteOutcomeUnknown)
        elif len(writes) == 1:
            _fail(writes[0].result, error)
        else:
            # One of them cannot be stored. Commit each one alone, so that only that one fails.
            self._queued.extendleft(reversed(writes))
            self._singly = len(writes)

    def _failed(self, error: StorageFailed) -> str:
        """The error message for writers. If the file can no longer be trusted, all further writes are
        rejected."""
        message = f"the store cannot write: {error}"
        if self.refusal is None and error.code & 0xFF not in _TEMPORARY_ERRORS:
            self._refuse_all(message)
        return message

    def _refuse_all(self, message: str) -> None:
        self.refusal = message
        _refuse(self._queued, message)
        _refuse(self._chores, message)
        self._queued.clear()
        self._chores.clear()

    def _chore_done(self, chore: _Chore, result: object, error: Exception | None) -> None:
        if isinstance(error, StorageFailed):
            error = StoreUnavailable(self._failed(error))
        if error is not None:
            _fail(chore.result, error)
        elif not chore.result.done():
            chore.result.set_result(result)
        self._next()

    def _next(self) -> None:
        self._busy = False
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        self._pump()


def _refuse(
    waiting: Iterable[_Write | _Chore], message: str, kind: type[StoreUnavailable] = StoreUnavailable
) -> None:
    for each in waiting:
        _fail(each.result, kind(message))


def _fail(result: "Future[Any]", error: Exception) -> None:
    if not result.done():
        result.set_exception(error)
