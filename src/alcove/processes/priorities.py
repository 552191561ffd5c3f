"""The priorities of threads that serve, on a machine that is busy with other things: tenants' pods, most likely."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

SERVER_RAISED_BY = 10
"""Everybody waits for the API server, the other processes of the cluster too."""
COMPONENT_RAISED_BY = 5
"""Controllers, the scheduler and agents, which also answer for DNS and start pods."""


def raise_thread_priority(by: int) -> None:
    """Lets the calling thread run before others of this machine, if this process may do that (CAP_SYS_NICE).

    For an event loop that serves all tenants: it computes little at a time, and whenever it has waited for something,
    for the interpreter lock too, everything else that computes on the machine would be before it. Threads and processes
    that it starts have the usual priority: commands of runtimes, and with them pods.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        # On Linux this is about the calling thread only.
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - by)


def set_session_priority(pid: int, nice: int) -> None:
    """Gives the session of a process a share of the machine's cores, where the kernel groups processes by sessions
    (sched_autogroup(7)): nice values only order the processes of one session there. Needs CAP_SYS_NICE for less than 0.

    Elsewhere it does nothing: what systemd or a container runtime has put into control groups has their weights.
    """
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def session_priority(pid: int) -> int:
    """The nice value of the process's session; 0 where there are no such groups."""
    with suppress(OSError):
        found = re.search(r"nice (-?\d+)", Path(f"/proc/{pid}/autogroup").read_text())
        return int(found[1]) if found else 0
    return 0


def raise_session_priority(pid: int, verb: str) -> None:
    """Lets a process of the cluster, which has a session of its own, run before pods and what starts them. `verb` is
    the command of `alcove` that it runs."""
    set_session_priority(pid, -SERVER_RAISED_BY if verb == "apiserver" else -COMPONENT_RAISED_BY)
