"""Uids that no object has any more. None ever comes back, so what is known to be gone need not be asked again.

A table of fixed size that forgets the older where two meet. It keeps hashes, not the strings: those were
made amid the burst of objects that went, and each would keep a page of its memory from being given back.
Python's hashes of strings are keyed anew in each process, so nobody can make two meet on purpose.
"""

from __future__ import annotations

from array import array

SLOTS = 1 << 14


class AbsentOwners:
    def __init__(self) -> None:
        self._hashes = array("q", bytes(8 * SLOTS))

    def add(self, uid: str) -> None:
        mark = hash(uid)
        self._hashes[mark % SLOTS] = mark

    def __contains__(self, uid: str) -> bool:
        mark = hash(uid)
        return mark != 0 and self._hashes[mark % SLOTS] == mark
