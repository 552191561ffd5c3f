"""Logs of a cluster's processes: the last lines, and what comes after them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TAIL_BYTES = 64 << 10
FOLLOW_SECONDS = 0.2


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log, however long it is; none if there is no such log."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, 2)
            step = TAIL_BYTES
            while True:
                log.seek(max(0, size - step))
                lines = log.read().decode(errors="replace").splitlines()
                if step >= size or len(lines) > count:
                    return lines[-count:]
                step *= 4
    except FileNotFoundError:
        return []


def follow(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Lines as they are written, of logs that may be set aside and begun anew, without end."""
    ends = {path: _size(path) for path in paths}
    rests = dict.fromkeys(paths, b"")
    while True:
        for path in paths:
            for line in _fresh(path, ends, rests):
                yield path, line
        time.sleep(FOLLOW_SECONDS)


def _fresh(path: Path, ends: dict[Path, int], rests: dict[Path, bytes]) -> list[str]:
    size = _size(path)
    if size < ends[path]:
        ends[path] = 0  # Begun anew.
    if size == ends[path]:
        return []
    with path.open("rb") as log:
        log.seek(ends[path])
        content = rests[path] + log.read()
        ends[path] = log.tell()
    *whole, rests[path] = content.split(b"\n")
    return [line.decode(errors="replace") for line in whole]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
