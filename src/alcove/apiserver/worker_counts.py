"""What each tenant has at all workers of an API server together, so that a bound per tenant holds for all of them.

The counts are in shared memory: each worker writes its own and adds up those of all when it decides, without asking
anybody. A tenant's counts are found by a keyed hash of its name. Tenants that share a place, which is rare and which
nobody can arrange, are counted together by the other workers. Workers that decide at the same moment may exceed a bound by
one each.
"""

from __future__ import annotations

import mmap
import os
from enum import IntEnum
from hashlib import blake2b

from alcove.http.group_counts import GroupCounts

PLACES = 1 << 16


class Counted(IntEnum):
    CONNECTIONS = 0
    WATCHES = 1
    BUFFERED_BYTES = 2
    STREAMS = 3
    EXTENSION_REQUESTS = 4
    PLANE_REQUESTS = 5
    WEBHOOK_CALLS = 6


_WORKER_WORDS = len(Counted) * PLACES
_WORKER_BYTES = _WORKER_WORDS * 8


class WorkerCountsMemory:
    """The shared memory: for each worker, what is counted, by place."""

    def __init__(self, descriptor: int, key: bytes, workers: int) -> None:
        self.descriptor = descriptor
        self.key = key
        self.workers = workers
        self._memory = mmap.mmap(descriptor, workers * _WORKER_BYTES)
        self.words = memoryview(self._memory).cast("q")

    @classmethod
    def create(cls, workers: int) -> WorkerCountsMemory:
        descriptor = os.memfd_create("alcove-counts")
        # Pages that nobody writes to take no memory.
        os.ftruncate(descriptor, workers * _WORKER_BYTES)
        return cls(descriptor, os.urandom(16), workers)

    def clear(self, worker: int) -> None:
        """Forgets what a worker had that has exited."""
        self._memory.madvise(mmap.MADV_REMOVE, worker * _WORKER_BYTES, _WORKER_BYTES)

    def counts(self, worker: int, counted: Counted) -> WorkerCounts:
        return WorkerCounts(self, worker, counted)


class WorkerCounts(GroupCounts):
    """The counts of one worker, with a view of the others'."""

    def __init__(self, memory: WorkerCountsMemory, worker: int, counted: Counted) -> None:
        super().__init__()
        self._words = memory.words
        self._key = memory.key
        self._worker = worker
        self._first = counted * PLACES
        self._others = [
            other * _WORKER_WORDS + self._first for other in range(memory.workers) if other != worker
        ]
        self._mine = worker * _WORKER_WORDS + self._first
        self._places: dict[str, int] = {}
        """Of the groups that have something in this process."""

    def total(self, group: str) -> int:
        place = self._place(group)
        words = self._words
        return self.own(group) + sum(words[first + place] for first in self._others)

    def add(self, group: str, change: int) -> None:
        super().add(group, change)
        place = self._place(group)
        self._words[self._mine + place] += change
        if self.own(group):
            self._places[group] = place
        else:
            self._places.pop(group, None)

    def _place(self, group: str) -> int:
        place = self._places.get(group)
        if place is None:
            digest = blake2b(group.encode(), digest_size=4, key=self._key).digest()
            place = int.from_bytes(digest, "big") % PLACES
        return place
