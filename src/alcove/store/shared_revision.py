"""The store's newest revision in memory that the process that owns the store shares with its workers.

The owner stores it after a commit is durable and before anybody gets to know of it. So a worker whose cache has this
revision has everything that any worker has acknowledged or shown, and finds that out without asking.
"""

from __future__ import annotations

import mmap
import os

from alcove.api.ids import Revision

_BYTES = mmap.PAGESIZE


class SharedRevision:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        # An aligned word is read and written as a whole.
        self._words = memoryview(mmap.mmap(descriptor, _BYTES)).cast("Q")

    @classmethod
    def create(cls) -> SharedRevision:
        descriptor = os.memfd_create("alcove-revision")
        os.ftruncate(descriptor, _BYTES)
        return cls(descriptor)

    @property
    def newest(self) -> Revision:
        return Revision(self._words[0])

    @newest.setter
    def newest(self, revision: Revision) -> None:
        self._words[0] = revision
