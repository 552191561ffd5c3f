"""Measures, removes and flushes file trees of containers and images, without trusting their contents.

The trees may be deeper than Python's recursion limit, too wide for memory, and full of symbolic links:
coreutils' tools follow none and stay on one file system. All functions block: call them in a thread.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path


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


def used_bytes(paths: Sequence[Path]) -> list[int]:
    """The disk usage of each path, with hard links counted once; 0 for paths that do not exist."""
    if not paths:
        return []
    completed = subprocess.run(
        ["du", "-s", "-x", "-B1", "-0", "--", *paths], capture_output=True, text=True, errors="replace"
    )
    sizes: dict[str, int] = {}
    for line in completed.stdout.split("\0"):
        size, _, name = line.partition("\t")
        if size.isdigit():
            sizes[name] = int(size)
    return [sizes.get(str(path), 0) for path in paths]


def _last_line(errors: str) -> str:
    return (errors.strip().splitlines() or ["no reason given"])[-1]
