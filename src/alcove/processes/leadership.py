"""Shared by processes with leader election: lease identity, and running until the lease is lost or a
signal."""

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
    """This process's identity in the lease, HOST_PID_RANDOM."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


async def until_lost(lost: asyncio.Event, working: Coroutine[Any, Any, None]) -> None:
    """Runs `working` until the lease is lost. Raises what `working` raises."""
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
    """Runs the coroutine in a new event loop; SIGINT and SIGTERM cancel it. Raises what `running` raises."""

    async def until_signal() -> None:
        working = asyncio.create_task(running)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await working

    uvloop.run(until_signal())
