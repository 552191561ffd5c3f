"""Logs of a cluster's processes: the last lines, and following new ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TAIL_BYTES = 64 << 10
FOLLOW_SECONDS = 0.2


def last_lines(path: Path, count: int) -> list[str]:
    """The last `count` lines of a log. Empty if the file does not exist."""
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
    """New lines as they are written, across log rotation. Never ends."""
    offsets = {path: _size(path) for path in paths}
    partial_lines = dict.fromkeys(paths, b"")
    while True:
        for path in paths:
            for line in _new_lines(path, offsets, partial_lines):
                yield path, line
        time.sleep(FOLLOW_SECONDS)


def _new_lines(path: Path, offsets: dict[Path, int], partial_lines: dict[Path, bytes]) -> list[str]:
    size = _size(path)
    if size < offsets[path]:
        offsets[path] = 0  # Rotated.
    if size == offsets[path]:
        return []
    with path.open("rb") as log:
        log.seek(offsets[path])
        content = partial_lines[path] + log.read()
        offsets[path] = log.tell()
    *complete, partial_lines[path] = content.split(b"\n")
    return [line.decode(errors="replace") for line in complete]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
