"""How many of something (connections, watches, bytes) each group has at a server."""


class GroupCounts:
    """Of one process. A server that consists of several counts with a subclass."""

    def __init__(self) -> None:
        self._own: dict[str, int] = {}

    def own(self, group: str) -> int:
        """What the group has in this process."""
        return self._own.get(group, 0)

    def total(self, group: str) -> int:
        """What the group has in all processes of the server."""
        return self._own.get(group, 0)

    def groups(self) -> list[str]:
        """Those that have something in this process."""
        return list(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def add(self, group: str, change: int) -> None:
        count = self._own.get(group, 0) + change
        if count:
            self._own[group] = count
        else:
            self._own.pop(group, None)
