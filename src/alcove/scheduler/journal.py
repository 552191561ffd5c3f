"""A journal of slots that changed, so that what was computed before is mended, not computed anew.

Readers remember a position and ask what changed since; a reader that fell too far behind is told so.
"""

KEPT_MAX = 1 << 16


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
        if len(self._slots) > KEPT_MAX:
            dropped = KEPT_MAX // 2
            del self._slots[:dropped]
            self._base += dropped

    def since(self, position: int) -> list[int] | None:
        """Slots that changed after `position`, some perhaps repeatedly; None: too long ago to tell."""
        if position < self._base:
            return None
        return self._slots[position - self._base :]
