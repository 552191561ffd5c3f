"""Starts a process of the cluster: `python -m alcove.processes.launch PARENT NAMESPACE -- VERB OPTIONS…`.

Runs between the supervisor and the command, in the command's process: enters the network namespace (a path,
or `-` for none), and asks the kernel for SIGTERM when the supervisor exits (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, namespace, separator, *rest = arguments
    assert separator == "--", arguments
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        return  # The supervisor exited before prctl.
    if namespace != "-":
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        # Before any import that starts threads: only later threads inherit the namespace.
        if libc.setns(descriptor, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
        os.close(descriptor)
    from alcove.processes.main import app

    sys.argv = ["alcove", *rest]
    app()


if __name__ == "__main__":
    main(sys.argv[1:])
