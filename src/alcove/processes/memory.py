"""Memory of long-lived processes: short garbage collections, and freed memory returned to the kernel."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

log = logging.getLogger(__name__)

TRIM_SECONDS = 15.0
TRIM_BYTES = 32 << 20
"""Growth after which memory is trimmed earlier: a trim takes a sixth of a millisecond for each MiB it returns."""
QUIET_TRIM_BYTES = 4 << 20
"""Growth after which a quiet process is trimmed: it has just done what made it grow."""
LOOK_SECONDS = 1.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
COLLECT_AFTER = (700, 10, 2)
"""Arguments of gc.set_threshold: the oldest generation has about 20,000 objects when it is collected."""
GROWN_RATIO, GROWN_BYTES = 2.0, 256 << 20
"""Growth since the last full collection that triggers the next one."""
QUIET_SHARE = 0.2
"""Of a core: a process that uses less is quiet, and has time for a full collection."""
QUIET_WAIT_SECONDS_MAX = 600.0
"""A full collection stops the process for tens of milliseconds, so it waits until the process is quiet, but not longer."""


def bound_collections() -> None:
    """Bound how long a garbage collection stops the process: to about five milliseconds.

    With a cluster's objects in memory a full collection takes a third of a second. It finds little: nearly
    everything is freed by reference counting, and most cycles are collected young. So what has survived the
    collection of all generations is frozen: later collections do not look at it. Cycles that become garbage after
    that wait until the process has grown a lot (`keep_trimmed`).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, info: dict[str, int], freeze: Callable[[], None] = gc.freeze) -> None:
    # `freeze` is a default since globals are gone when the interpreter exits.
    if phase == "stop" and info["generation"] == 2:
        freeze()


async def keep_trimmed(trim_seconds: float = TRIM_SECONDS, look_seconds: float = LOOK_SECONDS) -> None:
    """Returns freed memory to the kernel every `trim_seconds`, and whenever the process has grown by TRIM_BYTES or is quiet
    after it has grown, until cancelled: a few milliseconds each time.

    Runs a full collection when the process has grown a lot, and is quiet. Returns immediately without glibc.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        log.info("C library has no malloc_trim; memory trimming disabled")
        return
    trimmed = collected = resident_bytes()
    trimmed_at = perf_counter()
    due_since: float | None = None
    while True:
        used = process_time()
        await asyncio.sleep(look_seconds)
        is_quiet = process_time() - used < QUIET_SHARE * look_seconds
        grown_max = QUIET_TRIM_BYTES if is_quiet else TRIM_BYTES
        if resident_bytes() >= trimmed + grown_max or perf_counter() >= trimmed_at + trim_seconds:
            trim(0)
            trimmed, trimmed_at = resident_bytes(), perf_counter()
            collected = min(collected, trimmed)
            if trimmed <= collected * GROWN_RATIO + GROWN_BYTES:
                due_since = None
            elif due_since is None:
                due_since = perf_counter()
        if due_since is not None and (is_quiet or perf_counter() > due_since + QUIET_WAIT_SECONDS_MAX):
            _collect_everything()
            trim(0)
            trimmed = collected = resident_bytes()
            due_since = None


def _collect_everything() -> None:
    gc.unfreeze()
    began = perf_counter()
    found = gc.collect()
    seconds = round(perf_counter() - began, 3)
    log.info("collected garbage after a growth of memory", extra={"objects": found, "seconds": seconds})


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE_BYTES
