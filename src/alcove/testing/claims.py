"""Numbers that no two tests of this machine get within a short time: of ports, of address ranges.

To ask what is free now is not enough, since somebody else may take it before it is used: a port that the kernel picked
and that was closed again is the next listener's. So numbers are given out in turn, for all processes of a user.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

PORTS = range(20_000, 30_000)
"""Below those that the kernel picks."""


def claim(what: str, numbers: range, is_free: Callable[[int], bool]) -> int:
    """The next number that is free. Raises RuntimeError if there is none."""
    path = Path(tempfile.gettempdir()) / f"alcove-test-{what}-{os.getuid()}"
    with path.open("a+") as last:
        fcntl.flock(last, fcntl.LOCK_EX)
        last.seek(0)
        start = int(last.read() or numbers.start - 1) + 1 - numbers.start
        for step in range(len(numbers)):
            number = numbers[(start + step) % len(numbers)]
            if is_free(number):
                last.truncate(0)
                last.write(str(number))
                return number
    raise RuntimeError(f"no free {what}")


def free_port() -> int:
    """A TCP port that nobody listens on now, at any address."""
    return claim("ports", PORTS, _is_free_port)


def _is_free_port(port: int) -> bool:
    try:
        with socket.create_server(("0.0.0.0", port)):
            return True
    except OSError:
        return False
