"""A cache of uids of deleted objects. Uids are never reused, so the server need not be asked about them
again.

A hash table of fixed size; on a collision the newer entry replaces the older. It stores hashes instead of
strings: the strings are allocated during a burst of deletions, and each would keep a page of memory from
being released. Python's string hashes are keyed per process, so a tenant cannot construct collisions.
"""

from __future__ import annotations

from array import array

SLOTS = 1 << 14


class AbsentOwners:
    def __init__(self) -> None:
        self._hashes = array("q", bytes(8 * SLOTS))

    def add(self, uid: str) -> None:
        hashed = hash(uid)
        self._hashes[hashed % SLOTS] = hashed

    def __contains__(self, uid: str) -> bool:
        hashed = hash(uid)
        return hashed != 0 and self._hashes[hashed % SLOTS] == hashed
