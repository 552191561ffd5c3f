"""How many processes a server on this machine consists of."""

from __future__ import annotations

import os
from pathlib import Path

CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def usable_cores(cpu_limit: Path = CPU_LIMIT) -> int:
    """The cores that this process may use: those it is bound to, and no more than its container's limit."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = cpu_limit.read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


def default_workers(cores: int) -> int:
    """One core is left to everything else."""
    return max(1, cores - 1)
