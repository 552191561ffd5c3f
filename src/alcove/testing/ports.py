"""TCP ports for processes that must be told theirs before they listen.

A port that the kernel picks and that is closed again may be given to anybody before the process listens on it. These
are below the kernel's own range, and no two tests of this machine get the same one within a short time.
"""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 20_000, 29_999


def free_port() -> int:
    """One that nobody listens on now, at any address."""
    path = Path(tempfile.gettempdir()) / f"alcove-test-ports-{os.getuid()}"
    with path.open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        port = int(counter.read() or FIRST)
        while True:
            port = port + 1 if port < LAST else FIRST
            if _is_free(port):
                break
        counter.truncate(0)
        counter.write(str(port))
        return port


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("0.0.0.0", port)):
            return True
    except OSError:
        return False
