"""Watches at a version that a webhook converts to: events are converted in batches and keep their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from alcove.api.errors import ApiError, InternalError
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.render import render
from alcove.apiserver.watch import Matches, Watcher, event_type
from alcove.apiserver.watch_events import error_event

log = logging.getLogger(__name__)

Convert = Callable[[Sequence[CacheEntry]], Awaitable[Sequence[CacheEntry]]]


class _Unconverted(Struct, frozen=True):
    kind: CacheEventType
    states: tuple[CacheEntry, ...]
    """The new state and, if it is needed, the one before."""

    @property
    def size(self) -> int:
        return sum(each.size for each in self.states)


def _size(item: _Unconverted | bytes) -> int:
    return len(item) if isinstance(item, bytes) else item.size


class ConvertingWatcher(Watcher):
    def __init__(
        self, *arguments: Any, convert: Convert, matches_converted: Matches | None, **options: Any
    ) -> None:
        """`matches_converted` tests objects at the version that is watched: its fields are unknown before."""
        super().__init__(*arguments, **options)
        self._convert = convert
        self._matches_converted = matches_converted
        self._queue: list[_Unconverted | bytes] = []
        self._unconverted_bytes = 0
        self._task: asyncio.Task[None] | None = None

    def _append_event(self, kind: CacheEventType, event: CacheEvent) -> None:
        needs_previous = self._matches_converted is not None and event.previous is not None
        states = (event.entry, event.previous) if needs_previous else (event.entry,)
        self._enqueue(_Unconverted(kind, tuple(each for each in states if each is not None)))

    def _append_line(self, line: bytes) -> None:
        self._enqueue(line)

    @property
    def _is_full(self) -> bool:
        return self._task is not None or super()._is_full

    @property
    def _waiting_bytes(self) -> int:
        return super()._waiting_bytes + self._unconverted_bytes

    def _enqueue(self, item: _Unconverted | bytes) -> None:
        if len(self._queue) > self._events_max and self._task is not None:
            self.expire()
            return
        self._queue.append(item)
        self._unconverted_bytes += _size(item)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                stored = [each for item in batch if not isinstance(item, bytes) for each in item.states]
                converted = iter(await self._convert(stored))
                for item in batch:
                    self._unconverted_bytes -= _size(item)
                    if isinstance(item, bytes):
                        self._put(item)
                    else:
                        self._put_converted(item.kind, [next(converted) for _ in item.states])
                self.flush()
        except ApiError as error:
            self._finish(error_event(error))
        except Exception:
            # Without this the watch would stay open and never send an event again.
            log.exception("failed to convert watch events")
            self._finish(error_event(InternalError("failed to convert events: watch again")))
        self._task = None
        self._hub.schedule(self, self.tenant)

    def _put_converted(self, kind: CacheEventType, states: Sequence[CacheEntry]) -> None:
        entry, previous = states[0], states[1] if len(states) > 1 else None
        shown = event_type(kind, entry, previous, self._matches_converted)
        if shown is not None:
            line = (shown.value.encode(), render(self._view, entry))
            self._put(b'{"type":"%b","object":%b}\n' % line)

    def stop(self) -> None:
        super().stop()
        self._queue.clear()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
