"""Connections as networks open them, read from the rings that their packets fill (bpf/lib/opening.h).

A ring is memory that the kernel and this process share: a reader copies what is new, without a call of the kernel, and
knows how much was overwritten before it came. Reading changes nothing, so every reader sees everything.
"""

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alcove.dataplane.bpf import Map
from alcove.dataplane.maps import MEMORIES_MAX, OPENING, OPENINGS_MAX, TUPLE, FlowFlag

Openings = NDArray[Any]
"""Records of OPENING_FIELDS, the oldest first."""
OPENING_FIELDS = np.dtype(
    {
        "names": ["key", "source", "target", "flags", "tick", "number"],
        "formats": [np.dtype((np.void, TUPLE.size)), "<2u8", "<2u8", "u1", "<u4", "<u4"],
        "offsets": [
            OPENING.offsets()["key"],
            TUPLE.offsets()["source"],
            TUPLE.offsets()["target"],
            TUPLE.offsets()["kind"],
            OPENING.offsets()["tick"],
            OPENING.offsets()["number"],
        ],
        "itemsize": OPENING.size,
    }
)
EMPTY: Openings = np.empty(0, OPENING_FIELDS)


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def address_words(ends: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One word for each address (two words). Different addresses may have the same: it is for a first selection."""
    return ends[..., 0] * _SPREAD + ends[..., 1]


def opener_words(openings: Openings) -> NDArray[np.uint64]:
    """The address of each connection's opener, as a word."""
    is_swapped = openings["flags"] & np.uint8(FlowFlag.SWAPPED) != 0
    return np.where(is_swapped, address_words(openings["target"]), address_words(openings["source"]))


def address_word(packed: bytes) -> int:
    return int(address_words(np.frombuffer(packed, "<2u8"))[0])


def map_memory(table: Map, entries: int) -> mmap.mmap:
    """The content of an array, to be read; the descriptor may be closed. Raises OSError."""
    return mmap.mmap(table.fd, entries * table.value_size, mmap.MAP_SHARED, mmap.PROT_READ)


class OpeningRing:
    """A network's ring as one reader sees it. It stays readable after the network has left the node."""

    def __init__(self, ring: Map, counts: Map, slot: int, pin: int) -> None:
        """`pin` tells the rings of a network that leaves the node and comes back apart. Raises OSError."""
        self._records = np.frombuffer(map_memory(ring, OPENINGS_MAX), OPENING_FIELDS)
        self._counts = np.frombuffer(map_memory(counts, MEMORIES_MAX), "<u8")
        self._slot = slot
        self._waits = False
        self.pin = pin
        self.position = 0
        """How many of the network's connections were opened before the next one that is read."""
        self.missed = 0
        """How many were overwritten before this reader came to them."""

    @property
    def count(self) -> int:
        """How many connections the network has opened on this node."""
        return int(self._counts[self._slot])

    def rewind(self) -> None:
        """All that the ring has is read once more."""
        self.position = max(0, self.count - OPENINGS_MAX)

    def skip(self) -> None:
        """Only what is opened from now on is read."""
        self.position = self.count

    def read(self) -> tuple[Openings, int]:
        """What is new, and how many more there were."""
        count = self.count
        first = max(self.position, count - OPENINGS_MAX)
        if count <= first:
            return EMPTY, 0
        start, end = first % OPENINGS_MAX, count % OPENINGS_MAX
        if start < end:
            records = self._records[start:end].copy()
        else:
            records = np.concatenate((self._records[start:], self._records[:end]))
        numbers = np.arange(first + 1, count + 1, dtype=np.uint64).astype(np.uint32)
        whole = records["number"] == numbers
        overwritten = self.count - OPENINGS_MAX - first
        if overwritten > 0:
            whole[:overwritten] = False
        return self._taken(records, whole, first)

    def _taken(self, records: Openings, whole: NDArray[np.bool_], first: int) -> tuple[Openings, int]:
        found = np.flatnonzero(whole)
        # The last ones may be in the process of being written: they are read the next time, but not waited for twice.
        end = int(found[-1]) + 1 if len(found) else 0
        if end < len(records) and self._waits:
            end = len(records)
        self._waits = end < len(records)
        lost = first - self.position + end - len(found)
        self.missed += lost
        self.position = first + end
        return (records if end == len(found) == len(records) else records[found]), lost
