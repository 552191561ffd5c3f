"""Group commit: writes queue while a commit is under way, and share the next one.

    write ─▶ queue ─▶ plan ─▶ append (in the worker process) ─▶ publish: feeds first, then writers

At most one commit is under way, and a plan is made when the one before is known: plans see only
what is durable. Chores (compaction) take turns with commits.
"""

import sqlite3
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Iterable, Sequence
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

_CAN_PASS = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM}
"""Errors that left the file as it was and may be gone at the next write. After any other, what the
file holds is not known until it is opened anew."""

Observe = Callable[[float, int], None]
"""Told of each commit: its seconds, its transactions."""


class _Write(NamedTuple):
    ops: Sequence[WriteOp]
    result: "Future[Revision]"


class _Chore(NamedTuple):
    request: tuple[object, ...]
    result: "Future[Any]"


class Commits:
    """The one way to the file's writer."""

    def __init__(
        self, loop: AbstractEventLoop, channel: Channel, heads: Heads, feeds: Feeds, observe: Observe
    ) -> None:
        self._loop = loop
        self._channel = channel
        self._heads = heads
        self._feeds = feeds
        self._observe = observe
        self._queued: deque[_Write] = deque()
        self._chores: deque[_Chore] = deque()
        self._chore_next = False
        self._singly = 0
        """So many of the queued writes get a commit of their own."""
        self._pump_due = False
        self._busy = False
        self._idle: Future[None] | None = None
        self.refusal: str | None = None
        """Why no write is taken any more; None: they are."""

    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        check_transaction(ops)
        if self.refusal is not None:
            raise StoreUnavailable(self.refusal)
        if len(self._queued) >= WRITES_QUEUED_MAX:
            raise StoreUnavailable(f"{WRITES_QUEUED_MAX} writes are waiting already")
        result: Future[Revision] = self._loop.create_future()
        self._queued.append(_Write(ops, result))
        self._schedule()
        return await result

    async def chore(self, *request: object) -> Any:
        """What the worker answers to `request`, sent between commits."""
        if self.refusal is not None:
            raise StoreUnavailable(self.refusal)
        chore = _Chore(request, self._loop.create_future())
        self._chores.append(chore)
        self._schedule()
        return await chore.result

    async def close(self, why: str) -> None:
        """Refuses what waits; returns when the commit under way is done."""
        self._refuse_all(why)
        if self._busy:
            self._idle = self._loop.create_future()
            await self._idle

    def _schedule(self) -> None:
        # Not at once: whoever else writes in this turn of the loop joins the commit.
        if not self._busy and not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Gives the writer its next job."""
        self._pump_due = False
        if self._busy:
            return
        if self._chores and (self._chore_next or not self._queued):
            self._chore_next = False
            self._busy = True
            chore = self._chores.popleft()
            self._channel.submit(partial(self._chore_done, chore), *chore.request)
        elif self._queued:
            self._chore_next = True
            self._commit(self._take())

    def _take(self) -> list[_Write]:
        """The queued writes that share the next commit."""
        taken: list[_Write] = []
        ops_left, bytes_left = OPS_PER_COMMIT_MAX, BODY_BYTES_PER_COMMIT_MAX
        if self._singly:
            self._singly -= 1
            ops_left = 1
        while self._queued and ops_left > 0 and bytes_left > 0:
            write = self._queued.popleft()
            taken.append(write)
            for op in write.ops:
                ops_left -= 1
                bytes_left -= len(op.body or b"")
        return taken

    def _commit(self, writes: Sequence[_Write]) -> None:
        planned = plan([write.ops for write in writes], self._heads, self._feeds.revision)
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
            # The next commit first: it is on its way to the disk while we tell these writers.
            self._next()
            self._settle(writes, planned)
        else:
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
            is_known = error.code & 0xFF in _CAN_PASS
            _refuse(writes, self._failed(error), StoreUnavailable if is_known else WriteOutcomeUnknown)
        elif len(writes) == 1:
            _fail(writes[0].result, error)
        else:
            # One of them cannot be stored at all. Alone, each answers for itself.
            self._queued.extendleft(reversed(writes))
            self._singly = len(writes)

    def _failed(self, error: StorageFailed) -> str:
        """What to tell writers. Where the file can no longer be trusted, none is let in again."""
        why = f"the store cannot write: {error}"
        if self.refusal is None and error.code & 0xFF not in _CAN_PASS:
            self._refuse_all(why)
        return why

    def _refuse_all(self, why: str) -> None:
        self.refusal = why
        _refuse(self._queued, why)
        _refuse(self._chores, why)
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
    waiting: Iterable[_Write | _Chore], why: str, kind: type[StoreUnavailable] = StoreUnavailable
) -> None:
    for each in waiting:
        _fail(each.result, kind(why))


def _fail(result: "Future[Any]", error: Exception) -> None:
    if not result.done():
        result.set_exception(error)
