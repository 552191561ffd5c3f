"""Becomes a process of the cluster: `python -m alcove.processes.launch PARENT [NAMESPACE] -- VERB OPTIONS…`.

Between the supervisor and the verb, in the verb's own process: it enters the network namespace (PATH, or `-`
for none), and it asks to be told to end when the supervisor is gone, however that happened.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> None:
    parent, namespace, separator, *rest = words
    assert separator == "--", words
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        return  # It went before we could ask.
    if namespace != "-":
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        # Threads made from now on are in it too; before the first import that makes any.
        if libc.setns(descriptor, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
        os.close(descriptor)
    from alcove.processes.main import app

    sys.argv = ["alcove", *rest]
    app()


if __name__ == "__main__":
    main(sys.argv[1:])
