"""Threads for work on files of pods, fair between tenants.

How long such work takes is decided by tenants: a volume with millions of files is removed, or gets another group,
in minutes. Threads that all tenants share as they come would be taken by one that has a few such volumes.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from alcove.client.keys import TenantKey
from alcove.component.fair_slots import FairSlots

THREADS_MAX = 12
"""Of which a tenant alone gets half."""

P = ParamSpec("P")
T = TypeVar("T")


class TenantThreads:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._slots: FairSlots[TenantKey] = FairSlots(THREADS_MAX)
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="pod-files")

    async def run(
        self, tenant_key: TenantKey, work: Callable[P, T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Runs `work` in a thread. If cancelled, it still waits for the thread, so that no other task uses the
        same files."""
        async with self._slots.slot(tenant_key):
            call = partial(work, *arguments, **named)
            running = asyncio.get_running_loop().run_in_executor(self._threads, call)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                await asyncio.wait({running})
                raise
