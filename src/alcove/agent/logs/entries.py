"""Lines of a container's log file: `2026-01-02T03:04:05.678901234+00:00 stdout F text`.

F marks the end of the container's line, P a part of it: the rest is in the next entry of that stream.
"""

from datetime import datetime

from msgspec import Struct

STDOUT, STDERR = b"stdout", b"stderr"


class LogEntry(Struct, frozen=True):
    time: bytes
    stream: bytes
    is_complete: bool
    """Whether it ends the line."""
    text: bytes

    @property
    def output(self) -> bytes:
        """What the container wrote."""
        return self.text + b"\n" if self.is_complete else self.text


def parse(line: bytes) -> LogEntry | None:
    """Parses one line without its newline; None if it is invalid, e.g. cut off by a full disk."""
    parts = line.split(b" ", 3)
    if len(parts) != 4 or parts[1] not in (STDOUT, STDERR):
        return None
    return LogEntry(parts[0], parts[1], parts[2].partition(b":")[0] == b"F", parts[3])


def shown_time(time: bytes) -> bytes:
    """The time as kubelet prints it, with Z for UTC."""
    return time[:-6] + b"Z" if time.endswith(b"+00:00") else time


def seconds_of(time: bytes) -> float:
    """Seconds since the epoch; 0 if the time is invalid."""
    text = time.decode("ascii", "replace")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
