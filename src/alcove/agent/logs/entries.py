"""Lines of a container's log file: `2026-01-02T03:04:05.678901234+00:00 stdout F what it said`.

F ends the container's own line, P is a part of it: the rest is in the next entry of that stream.
"""

from datetime import datetime

from msgspec import Struct

STDOUT, STDERR = b"stdout", b"stderr"


class LogEntry(Struct, frozen=True):
    time: bytes
    stream: bytes
    is_whole: bool
    """It ends the line."""
    text: bytes


def parse(line: bytes) -> LogEntry | None:
    """One line of the file without its end; None if it is none of ours (a disk that was full, …)."""
    parts = line.split(b" ", 3)
    if len(parts) != 4 or parts[1] not in (STDOUT, STDERR):
        return None
    return LogEntry(parts[0], parts[1], parts[2].partition(b":")[0] == b"F", parts[3])


def shown_time(time: bytes) -> bytes:
    """As Kubernetes' clients are used to it: UTC is Z."""
    return time[:-6] + b"Z" if time.endswith(b"+00:00") else time


def seconds_of(time: bytes) -> float:
    """Since the epoch; an entry whose time cannot be read is from the beginning of time."""
    text = time.decode("ascii", "replace")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
