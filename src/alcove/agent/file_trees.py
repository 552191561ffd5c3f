"""Trees of files that containers or images brought: measured, removed and flushed without trusting anything in them.

They may be deeper than Python recurses, wider than memory, and full of links: coreutils' tools go through
them without following any, stay on one file system, and do not hold up this process. All calls wait for
them: from an event loop they belong in a thread.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path


def remove(*paths: Path) -> None:
    """Idempotent. OSError where something is left; what is mounted inside is left, never emptied."""
    there = [path for path in paths if path.is_symlink() or path.exists()]
    if not there:
        return  # A process is not for nothing.
    done = subprocess.run(["rm", "-rf", "--one-file-system", "--", *there], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"cannot remove {there[0]}: {_last(done.stderr)}")


def flush(path: Path) -> None:
    """Everything on its file system is on the disk: what is named afterwards survives a power failure whole."""
    subprocess.run(["sync", "--file-system", path], check=True, capture_output=True)


def used_bytes(paths: Sequence[Path]) -> list[int]:
    """What each takes of the disk, hard links once; what vanishes meanwhile does not count."""
    if not paths:
        return []
    done = subprocess.run(
        ["du", "-s", "-x", "-B1", "-0", "--", *paths], capture_output=True, text=True, errors="replace"
    )
    found: dict[str, int] = {}
    for line in done.stdout.split("\0"):
        size, _, name = line.partition("\t")
        if size.isdigit():
            found[name] = int(size)
    return [found.get(str(path), 0) for path in paths]


def _last(complaint: str) -> str:
    return (complaint.strip().splitlines() or ["no reason given"])[-1]
