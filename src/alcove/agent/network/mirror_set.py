"""Calls back when mirrors have synced: a mirror reports changes, but an empty one has none to report."""

import asyncio
from collections.abc import Callable

from alcove.client.mirror import Mirror
from alcove.component.tasks import spawn


class MirrorSet:
    """Close it together with its mirrors."""

    def __init__(self, synced: Callable[[], None]) -> None:
        """`synced` is called once for each mirror, when it has synced."""
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
