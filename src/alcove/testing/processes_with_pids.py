"""`python -m alcove.testing.processes_with_pids PID…`: starts a process with each of these pids that is free.

Prints the pids it got, and then waits to be killed with its process group. The kernel gives the pid that is
asked for (`clone3` with `set_tid`), so that processes which start meanwhile do not matter.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys

_SYS_CLONE3 = 435
_CLONE_ARGUMENTS = struct.Struct("=11Q")
_libc = ctypes.PyDLL(None, use_errno=True)


def main() -> None:
    got = filter(_start, map(int, sys.argv[1:]))
    sys.stdout.write(" ".join(map(str, got)) + "\n")
    sys.stdout.flush()
    signal.pause()


def _start(pid: int) -> bool:
    """Whether a process with this pid was started; false if the pid is taken."""
    wanted = ctypes.c_int(pid)
    # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
    # set_tid_size, cgroup.
    arguments = _CLONE_ARGUMENTS.pack(0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
    started = _libc.syscall(ctypes.c_long(_SYS_CLONE3), arguments, ctypes.c_size_t(len(arguments)))
    if started == 0:
        os.execvpe("sleep", ["sleep", "1000"], {})
    if started < 0 and ctypes.get_errno() != errno.EEXIST:
        raise OSError(ctypes.get_errno(), f"clone3 with pid {pid}: {os.strerror(ctypes.get_errno())}")
    return bool(started > 0)


if __name__ == "__main__":
    main()
