"""Watches: each event is encoded once for all watchers that show it alike.

Buffers are bounded in events and bytes: a watcher that does not keep up gets an `Expired` error event and is
closed. What it holds is counted for the tenant of the user who watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from alcove.api.errors import Expired, Forbidden
from alcove.api.ids import SYSTEM, Revision, TenantId
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.render import ObjectView
from alcove.apiserver.watch_events import bookmark, encode, error_event
from alcove.apiserver.watch_hub import WatchHub, WatchScope
from alcove.http.limits import WRITE_BUFFER_BYTES_MAX
from alcove.http.messages import ResponseWriter

PENDING_EVENTS_MAX = 1000
"""Events that wait for a watcher's client; one more ends the watch with `Expired`."""
PENDING_BYTES_MAX = 8 << 20
"""Bytes that wait for a watcher's client; more end the watch with `Expired`."""
PENDING_EVENTS_RING0_MAX = 100_000
PENDING_BYTES_RING0_MAX = 256 << 20
"""The same for ring0, whose controllers watch the objects of all tenants: a tenant that writes much while such a watch
begins would make it list everything again and again."""
UNSENT_BYTES_MAX = 2 * WRITE_BUFFER_BYTES_MAX
"""A watch that expires with more bytes written and not sent loses its connection instead of getting `Expired`."""
FIRST_AT_ONCE_MAX = 256
"""Initial events that are sent in one iteration of the loop, so that other requests are served in between."""
BOOKMARK_SECONDS = 60.0
TOO_SLOW = "watcher too slow, events were dropped: list again and watch from there"
REFERENCE_BYTES = 8
"""The memory of an initial event that is not sent yet, beside its body, which the cache holds."""
WRITE_BYTES_MAX = 64 << 10
"""Bytes that a watcher writes before it is the next one's turn. Lines are written together, and a larger one in parts:
a megabyte takes several milliseconds, most of them for memory that is used once."""

Matches = Callable[[CacheEntry], bool]


def event_type(
    kind: CacheEventType, entry: CacheEntry, previous: CacheEntry | None, matches: Matches | None
) -> CacheEventType | None:
    """The event's type for a watcher of what matches: an object that stops matching is DELETED. None if it is not
    sent."""
    if matches is None:
        return kind
    is_in = kind is not CacheEventType.DELETED and matches(entry)
    was_in = previous is not None and matches(previous)
    match (was_in, is_in):
        case (False, True):
            return CacheEventType.ADDED
        case (True, True):
            return CacheEventType.MODIFIED
        case (True, False):
            return CacheEventType.DELETED
    return None


class Watcher:
    """One watch request, as a response's `Stream`."""

    def __init__(
        self,
        hub: WatchHub,
        scopes: Sequence[WatchScope],
        view: ObjectView,
        matches: Matches | None,
        *,
        tenant: TenantId,
        initial: Iterable[CacheEvent | CacheEntry | bytes],
        after: Revision,
        revision: Callable[[], Revision],
        seconds_max: float,
        bookmarks: bool,
        is_still_allowed: Callable[[], bool] | None = None,
    ) -> None:
        """`tenant`: the tenant of the user who watches; what the watch holds is counted for it."""
        self.scopes = scopes
        self.tenant = tenant
        self.held_bytes = 0
        """Bytes that wait because the client reads slowly, as counted for the tenant."""
        self._unsent_bytes = 0
        """Bytes that are counted after the watch has ended, until they are sent."""
        is_ring0 = tenant == SYSTEM
        self._events_max = PENDING_EVENTS_RING0_MAX if is_ring0 else PENDING_EVENTS_MAX
        self._bytes_max = PENDING_BYTES_RING0_MAX if is_ring0 else PENDING_BYTES_MAX
        self._hub = hub
        self._view = view
        self._matches = matches
        """None if everything in the scope matches."""
        self._initial: Iterator[CacheEvent | CacheEntry | bytes] | None = iter(initial)
        """Initial events that are not sent yet; None once all are."""
        self._held: list[CacheEvent] = []
        """Events that were published while initial events are being sent."""
        self._held_event_bytes = 0
        self._after = after
        """Only events after this revision are sent."""
        self._revision = revision
        self._seconds_max = seconds_max
        self._bookmarks = bookmarks
        self._is_still_allowed = is_still_allowed
        """Called before each event; None if the permission cannot end before the watch."""
        self._pending: list[bytes] = []
        self._begun = memoryview(b"")
        """What remains of a line that is written in part: it has to be sent before anything else."""
        self._pending_bytes = 0
        """Of both."""
        self._writer: ResponseWriter | None = None
        self._timers: list[asyncio.TimerHandle] = []

    # messages.Stream

    def start(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._hub.add(self)
        # Evaluated now, so that the initial state has the revision from which the events continue.
        initial = list(self._initial or ())
        self._initial = iter(initial)
        self._held_event_bytes += len(initial) * REFERENCE_BYTES
        self._timers.append(asyncio.get_running_loop().call_later(self._seconds_max, self._time_out))
        self._hub.schedule(self, self.tenant)

    def resume(self) -> None:
        self._hub.schedule(self, self.tenant)

    @property
    def _is_full(self) -> bool:
        """Whether what is there has to be written first, or the client has to read more."""
        return bool(self._pending_bytes) or (self._writer is not None and self._writer.paused)

    def _send_initial(self) -> None:
        """Sends a slice of the initial events; `flush` continues."""
        if self._initial is None or self._writer is None or self._is_full:
            return
        size = 0
        for count, first in enumerate(self._initial, start=1):
            size += self._append_initial(first)
            if count >= FIRST_AT_ONCE_MAX or size > WRITE_BYTES_MAX:
                return
        self._finish_initial()

    def _append_initial(self, first: CacheEvent | CacheEntry | bytes) -> int:
        match first:
            case bytes():
                self._append_line(first)
                return len(first)
            case CacheEntry() if self._matches is not None and not self._matches(first):
                return 0
            case CacheEntry():
                self._append_event(CacheEventType.ADDED, CacheEvent(CacheEventType.ADDED, first, None))
                return first.size
            case CacheEvent():
                self._offer(first)
                return first.entry.size

    def _finish_initial(self) -> None:
        self._initial = None
        held, self._held = self._held, []
        self._held_event_bytes = 0
        for event in held:
            self._offer(event)
        if self._bookmarks and self._writer is not None:
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._bookmark))

    def stop(self) -> None:
        self._hub.remove(self)
        self._writer = None
        if self.held_bytes:
            self._hub.buffers.release(self.tenant, self.held_bytes)
            self.held_bytes = 0
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # The hub's side

    def offer(self, event: CacheEvent) -> None:
        if self._is_still_allowed is not None and not self._is_still_allowed():
            self._revoke()
        elif self._initial is None:
            self._offer(event)
        elif len(self._held) >= self._events_max:
            self.expire()
        else:
            self._held.append(event)
            # The initial events hold the state before this one, if they are not sent yet.
            self._held_event_bytes += event.entry.size
            if event.previous is not None:
                self._held_event_bytes += event.previous.size

    def _offer(self, event: CacheEvent) -> None:
        event_type = self._event_type(event) if event.revision > self._after else None
        if event_type is not None:
            self._append_event(event_type, event)

    def _append_event(self, kind: CacheEventType, event: CacheEvent) -> None:
        self._put(encode(kind, event, self._view))

    def _append_line(self, line: bytes) -> None:
        self._put(line)  # A line that has no object: a bookmark.

    def _put(self, line: bytes) -> None:
        self._pending.append(line)
        self._pending_bytes += len(line)

    def flush(self) -> bool:
        """Writes some of what the client reads now; True if there is more. If the client does not read, `resume` follows."""
        self._send_initial()
        self._write()
        writer = self._writer
        if writer is None:
            return False
        if not writer.paused:
            # The client keeps up, as far as is known.
            is_behind = self.held_bytes > 2 * self._bytes_max
        else:
            is_behind = len(self._pending) > self._events_max or self.held_bytes > self._bytes_max
        if is_behind:
            self.expire()
            return False
        has_more = self._initial is not None or self._pending_bytes > 0
        return has_more and not writer.paused

    def _event_type(self, event: CacheEvent) -> CacheEventType | None:
        return event_type(event.kind, event.entry, event.previous, self._matches)

    def _write(self) -> None:
        """Writes as much as the client reads, and counts the rest."""
        writer = self._writer
        if writer is None:
            return
        if self._pending_bytes and not writer.paused:
            writer.write(self._next_slice())
        waiting = self._waiting_bytes
        if writer.paused:
            waiting += writer.buffered_bytes
        if waiting != self.held_bytes:
            self._count(waiting)

    @property
    def _waiting_bytes(self) -> int:
        """Bytes in memory that are not passed to the connection yet."""
        return self._pending_bytes + self._held_event_bytes

    def _next_slice(self) -> bytes:
        """What is written next, which is no longer pending: whole lines, or a part of one."""
        lines, index, size = self._pending, 0, 0
        if not self._begun:
            while index < len(lines) and size + len(lines[index]) <= WRITE_BYTES_MAX:
                size += len(lines[index])
                index += 1
            if index:
                data = b"".join(lines[:index])
                del lines[:index]
                self._pending_bytes -= size
                return data
            self._begun = memoryview(lines.pop(0))
        part, self._begun = self._begun[:WRITE_BYTES_MAX], self._begun[WRITE_BYTES_MAX:]
        self._pending_bytes -= len(part)
        return bytes(part)

    def _count(self, waiting: int) -> None:
        change, self.held_bytes = waiting - self.held_bytes, waiting
        if change > 0:
            self._hub.buffers.hold(self.tenant, change)
        else:
            self._hub.buffers.release(self.tenant, -change)

    def _clear_pending(self) -> None:
        self._pending.clear()
        self._pending_bytes = len(self._begun)

    # Termination and bookmarks

    def expire(self, message: str = TOO_SLOW) -> None:
        """Ends the watch; the client has to list again."""
        writer = self._writer
        self._clear_pending()
        if writer is not None and writer.buffered_bytes > UNSENT_BYTES_MAX:
            # What is written already would stay in memory until the client reads it.
            self.stop()
            writer.abort()
            return
        self._finish(error_event(Expired(message)))

    def _revoke(self) -> None:
        # The watch ends and does not only skip events: a client that regains the permission must not miss
        # any.
        self._clear_pending()
        self._finish(error_event(Forbidden("the permission for this watch has ended")))

    def _time_out(self) -> None:
        # Events that the client has not read by now are dropped: it watches again after the last one it has.
        has_bookmark = self._bookmarks and self._initial is None and not self._waiting_bytes
        self._clear_pending()
        self._finish(bookmark(self._view, self._revision()) if has_bookmark else b"")

    def _finish(self, last: bytes) -> None:
        writer = self._writer
        self.stop()
        if writer is not None and not writer.closed:
            begun, self._begun, self._pending_bytes = bytes(self._begun), memoryview(b""), 0
            if begun or last:
                writer.write(begun + last)
            if writer.paused:
                self._unsent_bytes = writer.buffered_bytes
                self._hub.buffers.hold(self.tenant, self._unsent_bytes)
            writer.finish()

    def sent(self) -> None:
        """Call it when the client has read the last event, or has disconnected."""
        unsent, self._unsent_bytes = self._unsent_bytes, 0
        if unsent:
            self._hub.buffers.release(self.tenant, unsent)

    def _bookmark(self) -> None:
        self._append_line(bookmark(self._view, self._revision()))
        self._hub.schedule(self, self.tenant)
        timer = asyncio.get_running_loop().call_later(BOOKMARK_SECONDS, self._bookmark)
        self._timers[-1] = timer
