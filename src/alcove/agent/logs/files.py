"""The files of a log, oldest first: those that rotation renamed (`0.log.20260102-030405.678901`), then the one
being written; and where in a file to begin."""

import os
from pathlib import Path

from alcove.agent.logs.entries import seconds_of

BLOCK_BYTES = 64 << 10


def rotated(path: Path) -> list[Path]:
    """The full files of the log at `path`, the oldest first."""
    prefix = f"{path.name}."
    try:
        return sorted(each for each in path.parent.iterdir() if each.name.startswith(prefix))
    except FileNotFoundError:
        return []


def all_of(path: Path) -> list[Path]:
    return [*rotated(path), *([path] if path.exists() else [])]


def tail_offset(descriptor: int, lines: int) -> tuple[int, int]:
    """Where the last `lines` lines of the container begin, and how many there are from there on: fewer if the file
    has fewer. Reads backwards, no further than needed."""
    position = os.fstat(descriptor).st_size
    if lines == 0:
        return position, 0
    found, carried = 0, b""
    while position > 0:
        start = max(0, position - BLOCK_BYTES)
        block = os.pread(descriptor, position - start, start) + carried
        # What comes before the first end of a line is the end of a line of the block before.
        first = block.find(b"\n") + 1 if start > 0 else 0
        if start > 0 and first == 0:
            position, carried = start, block
            continue
        *entries, unfinished = block[first:].split(b"\n")
        end = start + len(block) - len(unfinished)
        for entry in reversed(entries):
            if _ends_line(entry):
                if found == lines:
                    return end, lines
                found += 1
            end -= len(entry) + 1
        position, carried = start, block[:first]
    return 0, found


def _ends_line(entry: bytes) -> bool:
    """conmon cuts a container's line where it happens to have read so far: several entries are then one line."""
    return entry.split(b" ", 3)[2:3] == [b"F"]


def since_offset(descriptor: int, since: float) -> int:
    """A place before the first line of `since` or later, and not far before it: lines are in order of time."""
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
