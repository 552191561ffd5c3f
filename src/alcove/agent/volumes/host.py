"""Paths of the node itself in a volume (hostPath), checked to be what the pod says. For ring0's pods only."""

import stat
from pathlib import Path

from alcove.agent.volumes.errors import VolumeFailure
from alcove.api.objects import Object

_KINDS = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def path_of(source: Object) -> Path:
    """The path, made where the type says so. VolumeFailure: it is something else."""
    path, kind = Path(source.get("path") or ""), source.get("type") or ""
    if not path.is_absolute() or ".." in path.parts:
        raise VolumeFailure(f"invalid hostPath {str(path)!r}")
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(mode=0o755, parents=True)
    if kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    wanted = kind.removesuffix("OrCreate")
    if wanted and wanted not in _KINDS:
        raise VolumeFailure(f"hostPath type check failed: unknown type {kind}")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise VolumeFailure(f"hostPath type check failed: {path} is not there: {error.strerror}") from error
    if wanted and not _KINDS[wanted][0](mode):
        raise VolumeFailure(f"hostPath type check failed: {path} is not {_KINDS[wanted][1]}")
    return path
