"""Memory of long-lived processes: looked through seldom, and given back after a burst."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

TRIM_SECONDS = 15.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
COLLECT_AFTER = (2_000, 10, 500)
"""New objects before the youngest are looked through, and how often that before older ones are."""
GROWN_RATIO, GROWN_BYTES = 1.5, 32 << 20
"""A process that has grown so much since it last looked through everything does so again."""


def collect_seldom() -> None:
    """Look for garbage among all objects only after ten million new ones; among young ones as often as ever.

    A process that holds a cluster's objects stops for a third of a second whenever it looks through them
    all, and by default it does so each time they grow by a quarter. What it would find is little: nearly
    everything goes with its last reference, and what does not goes young.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def keep_trimmed(every_seconds: float = TRIM_SECONDS) -> None:
    """Hands freed memory back to the kernel now and then, until cancelled: a few milliseconds each time.

    Circles that grew old are looked for when the process has grown a lot. Without glibc there is nothing to do.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        log.info("this C library keeps its memory")
        return
    before = resident_bytes()
    while True:
        await asyncio.sleep(every_seconds)
        trim(0)
        before = min(before, resident_bytes())
        if resident_bytes() > before * GROWN_RATIO + GROWN_BYTES:
            gc.collect()
            trim(0)
            before = resident_bytes()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE_BYTES
