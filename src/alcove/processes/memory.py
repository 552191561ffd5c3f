"""Giving memory back: after a burst, the C library keeps what was freed in case of another."""

from __future__ import annotations

import asyncio
import ctypes
import logging

log = logging.getLogger(__name__)

TRIM_SECONDS = 15.0


async def keep_trimmed(every_seconds: float = TRIM_SECONDS) -> None:
    """Hands freed memory back to the kernel now and then, until cancelled: a few milliseconds each time.

    Without glibc there is nothing to do.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        log.info("this C library keeps its memory")
        return
    while True:
        await asyncio.sleep(every_seconds)
        trim(0)
