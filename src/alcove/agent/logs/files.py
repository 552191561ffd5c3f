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
    """Where the last `lines` lines begin, and how many there are from there on: fewer if the file has fewer."""
    end = os.fstat(descriptor).st_size
    # The end of the last line is no beginning of another.
    wanted, found = lines + 1, 0
    position = end
    while position > 0:
        start = max(0, position - BLOCK_BYTES)
        block = os.pread(descriptor, position - start, start)
        count = block.count(b"\n")
        if found + count >= wanted:
            cut = len(block)
            for _ in range(wanted - found):
                cut = block.rindex(b"\n", 0, cut)
            return start + cut + 1, lines
        found += count
        position = start
    return 0, min(lines, found)


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
