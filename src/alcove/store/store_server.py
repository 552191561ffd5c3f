"""Serves the embedded store to the workers of an API server, each of which has a `RemoteStore`.

    worker: write ─▶ channel ─▶ Commits ─▶ SQLite ─▶ the shared revision ─▶ events to every worker ─▶ reply

The events of a commit are sent to all workers, encoded once, before any reply to its writers. One channel keeps the order
of its messages, so a worker has the events of its own writes when it learns that they succeeded.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from functools import partial
from typing import Any

from alcove.api.ids import Revision
from alcove.store.base import StoreEvent, WriteOp
from alcove.store.keys import resource_text
from alcove.store.shared_revision import SharedRevision
from alcove.store.sqlite import SqliteStore
from alcove.store.sqlite_reads import key_of
from alcove.store.worker_channel import NOTE, WorkerChannel, packed


class StoreServer:
    def __init__(self, store: SqliteStore, shared: SharedRevision) -> None:
        self._store = store
        self._shared = shared
        self._workers: set[WorkerChannel] = set()
        """Those that have opened the store."""
        self._trouble: str | None = None
        shared.newest = store.known_revision()
        store.on_publish(self._publish)
        # Workers read for their caches, which brings this process nothing.
        store.prepare()

    def serve(self, channel: WorkerChannel) -> None:
        """Answers the calls of one worker's `RemoteStore`, until the channel is closed."""
        channel.handlers |= {
            "open": partial(self._open, channel),
            "write": self._write,
            "read": self._store.read,
            "compacted": self._store.compacted,
            "compact": self._compact,
        }
        channel.closed.add_done_callback(lambda _: self._workers.discard(channel))

    async def _open(self, channel: WorkerChannel) -> None:
        compacted = await self._store.compacted()
        # From here on without waiting: no commit may fall between the revision and the first events.
        channel.note("opened", self._store.known_revision(), compacted, self._trouble)
        self._workers.add(channel)

    def _write(self, ops: list[tuple[Any, ...]]) -> Future[Revision]:
        result = self._store.submit([_write_op(*op) for op in ops])
        result.add_done_callback(self._note_trouble)
        return result

    async def _compact(self, upto: Revision) -> None:
        await self._store.compact(upto)
        self._note("compacted", await self._store.compacted())

    def _publish(self, events: Sequence[StoreEvent], revision: Revision) -> None:
        self._shared.newest = revision
        if self._workers:
            self._note("events", [_packed_event(event) for event in events], revision)

    def _note_trouble(self, written: Future[Revision]) -> None:
        if written.cancelled() or written.exception() is None:
            return
        trouble = self._store.trouble()
        if trouble != self._trouble:
            self._trouble = trouble
            self._note("trouble", trouble)

    def _note(self, name: str, *arguments: Any) -> None:
        message = packed(NOTE, 0, name, arguments)
        for channel in tuple(self._workers):
            channel.send(message)


def packed_op(op: WriteOp) -> tuple[Any, ...]:
    key = op.key
    place = (resource_text(key.resource), key.tenant, key.namespace, key.name)
    return (place, op.body, op.expected, op.last, op.keeps, op.after)


def _write_op(place: tuple[str, str, str, str], *rest: Any) -> WriteOp:
    return WriteOp(key_of(*place), *rest)


def _packed_event(event: StoreEvent) -> tuple[Any, ...]:
    key = event.key
    place = (resource_text(key.resource), key.tenant, key.namespace, key.name)
    return (event.change.value, place, event.revision, event.body)
