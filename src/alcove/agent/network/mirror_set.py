"""Mirrors that somebody waits for: a mirror tells of changes, but not that it has seen everything, and there may be
nothing to see."""

import asyncio
from collections.abc import Callable

from alcove.client.mirror import Mirror
from alcove.component.tasks import spawn


class MirrorSet:
    """Ends with `close`, like the mirrors it is for."""

    def __init__(self, synced: Callable[[], None]) -> None:
        """`synced` is called for each mirror that has seen everything once."""
        self._synced = synced
        self._tasks: dict[Mirror, asyncio.Task[None]] = {}

    def add(self, mirror: Mirror) -> Mirror:
        self._tasks[mirror] = spawn(f"sync of {mirror.resource}", self._wait(mirror))
        return mirror

    def remove(self, mirror: Mirror) -> None:
        self._tasks.pop(mirror).cancel()

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _wait(self, mirror: Mirror) -> None:
        await mirror.synced()
        self._synced()
