"""Entries that were written, read again or decoded recently: they are kept as they are read fastest, all others small.

A decoded object takes five times the memory of its bytes, and bytes that many objects have in common are kept once
(`api/shared_bodies.py`). Most objects of most tenants are not read for days. Of what is kept decoded, the tenant with most
loses what it decoded first: one that reads all its objects has nobody else's decoded again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

from alcove.api.fair_pool import FairPool
from alcove.api.shared_bodies import SharedBodies

if TYPE_CHECKING:
    from alcove.apiserver.cache.entries import CacheEntry

RECENT_MAX = 4096
"""Entries that are kept whole, and those that are kept decoded, before they are made small."""
DECODED_BYTES_MAX = 64 << 20
"""Of the bodies of entries that are kept decoded, each of which counts as at least an equal part of it for RECENT_MAX entries:
whatever is decoded beyond that takes the place of what the tenant with most decoded first."""
DECODED_SECONDS = 60.0
"""For which an object is kept decoded."""
SLICE_SECONDS = 0.001
"""For which entries are made small in one iteration of the loop: a body with many values takes long."""
PAUSE_SECONDS = 0.01
LOOK_SECONDS = 0.2


class RecentEntries:
    def __init__(self, recent_max: int = RECENT_MAX, decoded_bytes_max: int = DECODED_BYTES_MAX) -> None:
        self._recent_max = recent_max
        self._one_bytes_min = decoded_bytes_max // recent_max
        self._lock = Lock()
        self._bodies = SharedBodies()
        self._whole: deque[CacheEntry] = deque()
        self._decoded: FairPool[CacheEntry] = FairPool(decoded_bytes_max, DECODED_SECONDS)

    def keep_whole(self, entry: CacheEntry) -> None:
        """Call it with an entry whose body is not packed, once until it is."""
        self._whole.append(entry)

    def clear(self) -> None:
        """Forgets all entries."""
        self._whole.clear()

    def decoded(self, entry: CacheEntry) -> None:
        """May be called in any thread."""
        size = max(entry.size, self._one_bytes_min)
        with self._lock:
            # At once: who reads all objects of a tenant does not pause meanwhile.
            for gone in self._decoded.add(entry.key.tenant, entry, size):
                gone.forget_decoded()

    async def keep_small(self) -> None:
        """Makes entries small that are no longer recent, a few at a time, until cancelled."""
        while True:
            has_more = self.trim(SLICE_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS if has_more else LOOK_SECONDS)

    def trim(self, seconds: float) -> bool:
        """Makes entries small for so long, at least one; returns whether some remain that are not recent."""
        until = perf_counter() + seconds
        while len(self._whole) > self._recent_max:
            self._whole.popleft().pack(self._bodies)
            if perf_counter() >= until:
                break
        return len(self._whole) > self._recent_max
