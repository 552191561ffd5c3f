"""Watches: finds the watchers of an event by index and sends them bytes that are encoded once.

The cost of an event depends on the watchers whose scope it falls into, not on all of them. Buffers are
bounded: a watcher that does not keep up gets an `Expired` error event and is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import orjson
from msgspec import Struct

from alcove.api.errors import ApiError, Expired, Forbidden, InternalError, status
from alcove.api.ids import GroupResource, Revision, TenantId
from alcove.apiserver.cache.entries import INDEXED_FIELDS, CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.negotiate import ResponseForm
from alcove.apiserver.render import ObjectView, render
from alcove.http.messages import ResponseWriter

log = logging.getLogger(__name__)

PENDING_EVENTS_MAX = 1000
FIRST_AT_ONCE_MAX = 256
"""Initial events that are sent in one iteration of the loop, so that other requests are served in between."""
BOOKMARK_SECONDS = 60.0

Matches = Callable[[CacheEntry], bool]


class WatchScope(Struct, frozen=True):
    """The key that a watcher is indexed by. None is a wildcard."""

    resource: GroupResource
    tenant: TenantId | None
    namespace: str | None
    name: str | None = None
    indexed: str | None = None
    """A value of the resource's indexed field: a pod's node."""

    @property
    def shape(self) -> tuple[bool, bool, bool, bool]:
        return (self.tenant is None, self.namespace is None, self.name is not None, self.indexed is not None)


class WatchHub:
    """All watchers of this server."""

    def __init__(self) -> None:
        self._watchers: dict[WatchScope, set[Watcher]] = {}
        self._shapes: dict[GroupResource, Counter[tuple[bool, bool, bool, bool]]] = {}
        self.count = 0

    def add(self, watcher: Watcher) -> None:
        for scope in watcher.scopes:
            self._watchers.setdefault(scope, set()).add(watcher)
            self._shapes.setdefault(scope.resource, Counter())[scope.shape] += 1
        self.count += 1

    def remove(self, watcher: Watcher) -> None:
        if watcher not in self._watchers.get(watcher.scopes[0], ()):
            return
        for scope in watcher.scopes:
            self._remove(watcher, scope)
        self.count -= 1

    def _remove(self, watcher: Watcher, scope: WatchScope) -> None:
        group = self._watchers[scope]
        group.discard(watcher)
        if not group:
            del self._watchers[scope]
        shapes = self._shapes[scope.resource]
        shapes[scope.shape] -= 1
        if not shapes[scope.shape]:
            del shapes[scope.shape]

    def publish(self, events: Sequence[CacheEvent]) -> None:
        touched: set[Watcher] = set()
        for event in events:
            for watcher in self._interested(event):
                watcher.offer(event)
                touched.add(watcher)
        for watcher in touched:
            watcher.flush()

    def _interested(self, event: CacheEvent) -> Iterator[Watcher]:
        key = event.entry.key
        shapes = self._shapes.get(key.resource)
        if not shapes:
            return
        for all_tenants, all_namespaces, by_name, by_index in tuple(shapes):
            for indexed in _indexed_values(event) if by_index else (None,):
                scope = WatchScope(
                    key.resource,
                    None if all_tenants else key.tenant,
                    None if all_namespaces else key.namespace,
                    key.name if by_name else None,
                    indexed,
                )
                yield from tuple(self._watchers.get(scope, ()))


def _indexed_values(event: CacheEvent) -> Iterable[str]:
    """Both the new and the old value: a watcher of the old one gets a DELETED event."""
    values = {event.entry.indexed}
    if event.previous is not None:
        values.add(event.previous.indexed)
    return values


class Watcher:
    """One watch request, as a response's `Stream`."""

    def __init__(
        self,
        hub: WatchHub,
        scopes: Sequence[WatchScope],
        view: ObjectView,
        matches: Matches | None,
        *,
        initial: Iterable[CacheEvent | CacheEntry | bytes],
        after: Revision,
        revision: Callable[[], Revision],
        seconds_max: float,
        bookmarks: bool,
        is_still_allowed: Callable[[], bool] | None = None,
    ) -> None:
        self.scopes = scopes
        self._hub = hub
        self._view = view
        self._matches = matches
        """None if everything in the scope matches."""
        self._initial: Iterator[CacheEvent | CacheEntry | bytes] | None = iter(initial)
        """Initial events that are not sent yet; None once all are."""
        self._held: list[CacheEvent] = []
        """Events that were published while initial events are being sent."""
        self._after = after
        """Only events after this revision are sent."""
        self._revision = revision
        self._seconds_max = seconds_max
        self._bookmarks = bookmarks
        self._is_still_allowed = is_still_allowed
        """Called before each event; None if the permission cannot end before the watch."""
        self._pending: list[bytes] = []
        self._writer: ResponseWriter | None = None
        self._timers: list[asyncio.TimerHandle] = []

    # messages.Stream

    def start(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._hub.add(self)
        # Evaluated now, so that the initial state has the revision from which the events continue.
        self._initial = iter(list(self._initial or ()))
        self._timers.append(asyncio.get_running_loop().call_later(self._seconds_max, self._time_out))
        self._send_initial()

    def resume(self) -> None:
        if self._initial is not None:
            self._send_initial()
        else:
            self._write()

    @property
    def _is_full(self) -> bool:
        """Whether sending must pause until the client has read more."""
        return self._writer is not None and self._writer.paused

    def _send_initial(self) -> None:
        """Sends a slice of the initial events; continues in the loop's next iteration, or when `resume` is
        called."""
        if self._writer is None or self._initial is None or self._is_full:
            return
        slice_ = list(islice(self._initial, FIRST_AT_ONCE_MAX))
        for first in slice_:
            match first:
                case bytes():
                    self._append_line(first)
                case CacheEntry():
                    self._append_event(CacheEventType.ADDED, CacheEvent(CacheEventType.ADDED, first, None))
                case CacheEvent():
                    self._offer(first)
        self._write()
        if len(slice_) == FIRST_AT_ONCE_MAX:
            asyncio.get_running_loop().call_soon(self._send_initial)
        else:
            self._finish_initial()

    def _finish_initial(self) -> None:
        self._initial = None
        held, self._held = self._held, []
        for event in held:
            self._offer(event)
        self._write()
        if self._bookmarks and self._writer is not None:
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._bookmark))

    def stop(self) -> None:
        self._hub.remove(self)
        self._writer = None
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # The hub's side

    def offer(self, event: CacheEvent) -> None:
        if self._is_still_allowed is not None and not self._is_still_allowed():
            self._revoke()
        elif self._initial is None:
            self._offer(event)
        elif len(self._held) >= PENDING_EVENTS_MAX:
            self._expire()
        else:
            self._held.append(event)

    def _offer(self, event: CacheEvent) -> None:
        event_type = self._event_type(event) if event.revision > self._after else None
        if event_type is not None:
            self._append_event(event_type, event)

    def _append_event(self, kind: CacheEventType, event: CacheEvent) -> None:
        self._pending.append(encode(kind, event, self._view))

    def _append_line(self, line: bytes) -> None:
        """Appends a line that has no object: a bookmark."""
        self._pending.append(line)

    def flush(self) -> None:
        if len(self._pending) > PENDING_EVENTS_MAX and self._writer is not None and self._writer.paused:
            self._expire()
        else:
            self._write()

    def _event_type(self, event: CacheEvent) -> CacheEventType | None:
        """The event's type for this watcher: an object that stops matching is DELETED. None if it is not
        sent."""
        if self._matches is None:
            return event.kind
        is_in = event.kind is not CacheEventType.DELETED and self._matches(event.entry)
        was_in = event.previous is not None and self._matches(event.previous)
        match (was_in, is_in):
            case (False, True):
                return CacheEventType.ADDED
            case (True, True):
                return CacheEventType.MODIFIED
            case (True, False):
                return CacheEventType.DELETED
        return None

    def _write(self) -> None:
        writer = self._writer
        if writer is None or writer.paused or not self._pending:
            return
        data = b"".join(self._pending)
        self._pending.clear()
        writer.write(data)

    # Termination and bookmarks

    def _expire(self) -> None:
        self._pending.clear()
        self._finish(
            error_event(Expired("watcher too slow, events were dropped: list again and watch from there"))
        )

    def _revoke(self) -> None:
        # The watch ends and does not only skip events: a client that regains the permission must not miss
        # any.
        self._pending.clear()
        self._finish(error_event(Forbidden("the permission for this watch has ended")))

    def _time_out(self) -> None:
        has_bookmark = self._bookmarks and self._initial is None
        self._finish(bookmark(self._view, self._revision()) if has_bookmark else b"")

    def _finish(self, last: bytes) -> None:
        writer = self._writer
        self.stop()
        if writer is not None and not writer.closed:
            if data := b"".join([*self._pending, last]):
                writer.write(data)
            writer.finish()

    def _bookmark(self) -> None:
        self._append_line(bookmark(self._view, self._revision()))
        self._write()
        timer = asyncio.get_running_loop().call_later(BOOKMARK_SECONDS, self._bookmark)
        self._timers[-1] = timer


Convert = Callable[[Sequence[CacheEntry]], Awaitable[Sequence[CacheEntry]]]


class ConvertingWatcher(Watcher):
    """A watch at a version that a webhook converts to: events are converted in batches and keep their
    order."""

    def __init__(self, *arguments: Any, convert: Convert, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._convert = convert
        self._queue: list[tuple[CacheEventType, CacheEntry] | bytes] = []
        self._task: asyncio.Task[None] | None = None

    def _append_event(self, kind: CacheEventType, event: CacheEvent) -> None:
        self._enqueue((kind, event.entry))

    def _append_line(self, line: bytes) -> None:
        self._enqueue(line)

    @property
    def _is_full(self) -> bool:
        return self._task is not None or super()._is_full

    def _enqueue(self, item: tuple[CacheEventType, CacheEntry] | bytes) -> None:
        if len(self._queue) > PENDING_EVENTS_MAX and self._task is not None:
            self._expire()
            return
        self._queue.append(item)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                entries = await self._convert([item[1] for item in batch if not isinstance(item, bytes)])
                converted = iter(entries)
                for item in batch:
                    if isinstance(item, bytes):
                        self._pending.append(item)
                    else:
                        line = (item[0].value.encode(), render(self._view, next(converted)))
                        self._pending.append(b'{"type":"%b","object":%b}\n' % line)
                self._write()
        except ApiError as error:
            self._finish(error_event(error))
        except Exception:
            # Without this the watch would stay open and never send an event again.
            log.exception("failed to convert watch events")
            self._finish(error_event(InternalError("failed to convert events: watch again")))
        self._task = None
        self._send_initial()

    def stop(self) -> None:
        super().stop()
        self._queue.clear()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()


def encode(kind: CacheEventType, event: CacheEvent, view: ObjectView) -> bytes:
    """One line of a watch, rendered once for all watchers with an equal view."""
    cache_key = (kind, view.cache_key)
    line = event.encoded.get(cache_key)
    if line is None:
        line = event.encoded[cache_key] = b'{"type":"%b","object":%b}\n' % (
            kind.value.encode(),
            render(view, event.entry),
        )
    return line


def error_event(error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % orjson.dumps(status(error))


def bookmark(view: ObjectView, revision: Revision, *, initial_end: bool = False) -> bytes:
    kind = view.kind
    meta: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    names = {"kind": kind.kind, "apiVersion": kind.api_version}
    if view.form is ResponseForm.METADATA:
        names = {"kind": "PartialObjectMetadata", "apiVersion": view.meta_version}
    if view.form is ResponseForm.TABLE:
        obj: dict[str, object] = {
            "kind": "Table",
            "apiVersion": view.meta_version,
            "metadata": {"resourceVersion": str(revision)},
            "columnDefinitions": [],
            "rows": [{"cells": [], "object": {**names, "metadata": meta}}],
        }
    else:
        obj = {**names, "metadata": meta}
    return b'{"type":"BOOKMARK","object":%b}\n' % orjson.dumps(obj)


def indexed_value(resource: GroupResource, exact: dict[str, str]) -> str | None:
    """The value that a field selector requires of the resource's indexed field; None if it requires none."""
    path = INDEXED_FIELDS.get(resource)
    return exact.get(".".join(path)) if path else None
