"""A journal of changed slots, so that cached results are updated incrementally.

Readers remember a position and get the changes since; a reader that is too far behind gets None and
recomputes.
"""

SLOTS_MAX = 1 << 16


class Journal:
    __slots__ = ("_base", "_slots")

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._base = 0

    @property
    def position(self) -> int:
        return self._base + len(self._slots)

    def note(self, slot: int) -> None:
        self._slots.append(slot)
        if len(self._slots) > SLOTS_MAX:
            dropped = SLOTS_MAX // 2
            del self._slots[:dropped]
            self._base += dropped

    def since(self, position: int) -> list[int] | None:
        """Slots that changed after `position`, possibly repeated. None if the position is no longer kept."""
        if position < self._base:
            return None
        return self._slots[position - self._base :]
