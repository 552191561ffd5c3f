"""Memory of long-lived processes: rare full garbage collections, and freed memory returned to the kernel."""

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
"""Arguments of gc.set_threshold."""
GROWN_RATIO, GROWN_BYTES = 1.5, 32 << 20
"""Growth since the last full collection that triggers the next one."""


def collect_seldom() -> None:
    """Run a full garbage collection only after ten million new objects; young generations as usual.

    With a cluster's objects in memory a full collection pauses the process for a third of a second, by
    default each time their number grows by a quarter. It finds little: nearly everything is freed by
    reference counting, and most cycles are collected young.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def keep_trimmed(every_seconds: float = TRIM_SECONDS) -> None:
    """Returns freed memory to the kernel every `every_seconds`, until cancelled: a few milliseconds each
    time.

    Runs a full collection when the process has grown a lot. Returns immediately without glibc.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        log.info("C library has no malloc_trim; memory trimming disabled")
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
