"""Measures, removes and flushes file trees of containers and images, without trusting their contents.

The trees may be deeper than Python's recursion limit, too wide for memory, and full of symbolic links:
coreutils' tools follow none and stay on one file system. All functions block: call them in a thread.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct


def remove(*paths: Path) -> None:
    """Idempotent. File systems mounted inside are skipped. Raises OSError if something remains."""
    existing = [path for path in paths if path.is_symlink() or path.exists()]
    if not existing:
        return  # Saves a subprocess.
    command: list[str | Path] = ["rm", "-rf", "--one-file-system", "--", *existing]
    completed = subprocess.run(command, capture_output=True, text=True)
    if completed.returncode:
        raise OSError(f"cannot remove {existing[0]}: {_last_line(completed.stderr)}")


def flush(path: Path) -> None:
    """Flushes the path's file system: what is renamed after that is complete even after a power failure."""
    subprocess.run(["sync", "--file-system", path], check=True, capture_output=True)


class TreeUsage(Struct, frozen=True):
    bytes: int = 0
    """Disk usage, with hard links counted once."""
    files: int = 0
    """Inodes: files, directories, links and all others."""
    is_cut: bool = False
    """It could not be measured in time, so it is larger than that."""


def used_bytes(paths: Sequence[Path]) -> list[int]:
    """The disk usage of each path, with hard links counted once; 0 for paths that do not exist."""
    sizes, _ = _measure(paths, ("-B1",), None)
    return [size or 0 for size in sizes]


def usages(paths: Sequence[Path], seconds_max: float) -> list[TreeUsage]:
    """The usage of each path; zeros for paths that do not exist. Takes at most twice `seconds_max`: the path
    that was being walked then is `is_cut`, and those after it are zeros."""
    sizes, cut_at = _measure(paths, ("-B1",), seconds_max)
    counts, cut_again_at = _measure(paths, ("--inodes",), seconds_max)
    cut = {cut_at, cut_again_at}
    return [
        TreeUsage(size or 0, count or 0, number in cut)
        for number, (size, count) in enumerate(zip(sizes, counts, strict=True))
    ]


def _measure(
    paths: Sequence[Path], units: Sequence[str], seconds_max: float | None
) -> tuple[list[int | None], int | None]:
    """The value of each path, None where there is none; and the index of the path that was being walked when
    the time was over, None if all were walked."""
    if not paths:
        return [], None
    command = ["nice", "-n", "19", "du", "-s", "-x", "-0", *units, "--", *map(str, paths)]
    is_over = False
    try:
        output = subprocess.run(command, capture_output=True, timeout=seconds_max).stdout
    except subprocess.TimeoutExpired as expired:
        output, is_over = expired.stdout or b"", True
    values: dict[str, int] = {}
    for line in output.decode(errors="surrogateescape").split("\0")[:-1]:
        size, _, name = line.partition("\t")
        if size.isdigit():
            values[name] = int(size)
    found = [values.get(str(path)) for path in paths]
    last = max((number for number, value in enumerate(found) if value is not None), default=-1)
    return found, last + 1 if is_over else None


def _last_line(errors: str) -> str:
    return (errors.strip().splitlines() or ["no reason given"])[-1]
