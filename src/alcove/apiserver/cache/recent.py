"""Entries that were written or decoded recently: they are kept as they are read fastest, all others small.

A decoded object takes five times the memory of its bytes, and bytes that many objects have in common are kept once
(`api/shared_bodies.py`). Most objects of most tenants are not read for days.
"""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

from alcove.api.shared_bodies import SharedBodies

if TYPE_CHECKING:
    from alcove.apiserver.cache.entries import CacheEntry

RECENT_MAX = 4096
"""Entries that were written, and those that were decoded, before they are made small."""
DECODED_BYTES_MAX = 64 << 20
"""Of the bodies of entries that are kept decoded: whatever is decoded beyond that takes the place of what was decoded before."""
SLICE_SECONDS = 0.001
"""For which entries are made small in one iteration of the loop: a body with many values takes long."""
PAUSE_SECONDS = 0.01
LOOK_SECONDS = 0.2


class RecentEntries:
    def __init__(self, recent_max: int = RECENT_MAX, decoded_bytes_max: int = DECODED_BYTES_MAX) -> None:
        self._recent_max = recent_max
        self._decoded_bytes_max = decoded_bytes_max
        self._decoded_bytes = 0
        self._lock = Lock()
        self._bodies = SharedBodies()
        self._written: deque[CacheEntry] = deque()
        self._decoded: deque[tuple[CacheEntry, int]] = deque()
        """With their sizes, which change when they are made small."""

    def written(self, entry: CacheEntry) -> None:
        self._written.append(entry)

    def decoded(self, entry: CacheEntry) -> None:
        """May be called in any thread."""
        with self._lock:
            self._decoded.append((entry, entry.size))
            self._decoded_bytes += entry.size
            # At once: who reads all objects of a tenant does not pause meanwhile.
            while self._decoded_bytes > self._decoded_bytes_max and len(self._decoded) > 1:
                self._forget_oldest()

    async def keep_small(self) -> None:
        """Makes entries small that are no longer recent, a few at a time, until cancelled."""
        while True:
            has_more = self.trim(SLICE_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS if has_more else LOOK_SECONDS)

    def trim(self, seconds: float) -> bool:
        """Makes entries small for so long, at least one; returns whether some remain that are not recent."""
        until = perf_counter() + seconds
        while self._has_more:
            with self._lock:
                if len(self._decoded) > self._recent_max:
                    self._forget_oldest()
            if len(self._written) > self._recent_max:
                self._written.popleft().pack(self._bodies)
            if perf_counter() >= until:
                break
        return self._has_more

    def _forget_oldest(self) -> None:
        """The lock is held."""
        oldest, size = self._decoded.popleft()
        oldest.forget_decoded()
        self._decoded_bytes -= size

    @property
    def _has_more(self) -> bool:
        return max(len(self._decoded), len(self._written)) > self._recent_max
