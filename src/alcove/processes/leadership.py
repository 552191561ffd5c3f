"""What processes have in common of which one at a time works: their name in the lease, and when they stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import Coroutine
from typing import Any

import uvloop


def identity() -> str:
    """This very process' name in the lease."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


async def until_lost(lost: asyncio.Event, working: Coroutine[Any, Any, None]) -> None:
    """Works until the lease is lost, or until working fails, which is told."""
    work_task, lost_task = asyncio.create_task(working), asyncio.create_task(lost.wait())
    try:
        await asyncio.wait((work_task, lost_task), return_when=asyncio.FIRST_COMPLETED)
        if work_task.done():
            work_task.result()
    finally:
        for task in (work_task, lost_task):
            task.cancel()
        await asyncio.wait((work_task, lost_task))


def run_until_signal(running: Coroutine[Any, Any, None]) -> None:
    """The whole of such a process: SIGINT and SIGTERM end it in good order. Raises what `running` raises."""

    async def until_signal() -> None:
        working = asyncio.create_task(running)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await working

    uvloop.run(until_signal())
