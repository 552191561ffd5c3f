"""Computes beside the event loop what tenants size: policy rules, names, backends. DNS, probes and the starts of all
pods are on that loop.

One thread computes, one call at a time, in turns between tenants; after its turn a tenant waits longer than the turn took.
While it computes, the loop waits for the interpreter lock at most SWITCH_SECONDS whenever it wakes up.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from alcove.agent.network.resting_turns import RestingTurns
from alcove.api.ids import TenantId
from alcove.component.tasks import TaskSet

T = TypeVar("T")

SWITCH_SECONDS = 0.0002


class TenantWork:
    def __init__(self) -> None:
        self._turns = RestingTurns()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tenant work")
        self._tasks = TaskSet()

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` as a task until `close`."""
        self._tasks.spawn(name, work)

    async def compute(self, tenant: TenantId, call: Callable[[], T]) -> T:
        """The result of `call`, which must not read what the event loop changes."""
        async with self._turns.turn(tenant):
            before = sys.getswitchinterval()
            sys.setswitchinterval(min(before, SWITCH_SECONDS))
            try:
                return await asyncio.get_running_loop().run_in_executor(self._thread, call)
            finally:
                sys.setswitchinterval(before)

    def close(self) -> None:
        self._tasks.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
