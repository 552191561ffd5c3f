"""The priority of the thread that serves, on a machine that is busy with other things."""

from __future__ import annotations

import os
from contextlib import suppress

RAISED_BY = 5


def raise_thread_priority() -> None:
    """Lets the calling thread run before others of this machine, if this process may do that (CAP_SYS_NICE).

    For an event loop that serves all tenants: it computes little at a time, and whenever it has waited for something,
    for the interpreter lock too, everything else that computes on the machine would be before it. Threads and processes
    that it starts have the usual priority.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        # On Linux this is about the calling thread only.
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - RAISED_BY)
