"""The files of a log, oldest first: those that rotation renamed (`0.log.20260102-030405.678901`), then the
current one; and the offsets at which to start reading."""

import os
from pathlib import Path

from alcove.agent.logs.entries import seconds_of

BLOCK_BYTES = 64 << 10


def rotated(path: Path) -> list[Path]:
    """The rotated files of the log at `path`, oldest first."""
    prefix = f"{path.name}."
    try:
        return sorted(each for each in path.parent.iterdir() if each.name.startswith(prefix))
    except FileNotFoundError:
        return []


def all_of(path: Path) -> list[Path]:
    return [*rotated(path), *([path] if path.exists() else [])]


def tail_offset(descriptor: int, lines: int) -> tuple[int, int]:
    """The offset of the last `lines` lines of the container, and their number, which is smaller if the file
    has fewer. Reads backwards, only as far as needed."""
    position = os.fstat(descriptor).st_size
    if lines == 0:
        return position, 0
    count, remainder = 0, b""
    while position > 0:
        start = max(0, position - BLOCK_BYTES)
        block = os.pread(descriptor, position - start, start) + remainder
        # The text before the first newline is the end of a line that begins in the previous block.
        first = block.find(b"\n") + 1 if start > 0 else 0
        if start > 0 and first == 0:
            position, remainder = start, block
            continue
        *entries, unfinished = block[first:].split(b"\n")
        end = start + len(block) - len(unfinished)
        for entry in reversed(entries):
            if _ends_line(entry):
                if count == lines:
                    return end, lines
                count += 1
            end -= len(entry) + 1
        position, remainder = start, block[:first]
    return 0, count


def _ends_line(entry: bytes) -> bool:
    """Whether the entry ends a line: conmon may split a container's line into several entries."""
    return entry.split(b" ", 3)[2:3] == [b"F"]


def since_offset(descriptor: int, since: float) -> int:
    """An offset shortly before the first line at or after `since`, by binary search: lines are ordered by
    time."""
    low, high = 0, os.fstat(descriptor).st_size
    while high - low > BLOCK_BYTES:
        middle = (low + high) // 2
        block = os.pread(descriptor, BLOCK_BYTES // 2, middle)
        first = block.find(b"\n")
        if first < 0:
            return low
        if seconds_of(block[first + 1 :].partition(b" ")[0]) < since:
            low = middle + first + 1
        else:
            high = middle
    return low
