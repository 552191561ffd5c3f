"""Port and address range numbers that are not handed out to two tests on this machine within a short time.

Checking what is free now is not enough: another process may use the number first. So numbers are handed out
in turn, to all processes of a user.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

PORTS = range(20_000, 30_000)
"""Below the ephemeral port range."""


def claim(name: str, numbers: range, is_free: Callable[[int], bool]) -> int:
    """The next number that is free. Raises RuntimeError if there is none."""
    path = Path(tempfile.gettempdir()) / f"alcove-test-{name}-{os.getuid()}"
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
    raise RuntimeError(f"no free {name}")


def free_port() -> int:
    """A free TCP port, on all addresses."""
    return claim("ports", PORTS, _is_free_port)


def _is_free_port(port: int) -> bool:
    try:
        with socket.create_server(("0.0.0.0", port)):
            return True
    except OSError:
        return False
