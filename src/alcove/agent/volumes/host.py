"""hostPath volumes, whose path is checked against the type in the spec. For ring0's pods only."""

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
    """The path, created if the type is DirectoryOrCreate or FileOrCreate. Raises VolumeFailure if it has
    another type."""
    path, kind = Path(source.get("path") or ""), source.get("type") or ""
    if not path.is_absolute() or ".." in path.parts:
        raise VolumeFailure(f"invalid hostPath {str(path)!r}")
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(mode=0o755, parents=True)
    if kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    expected = kind.removesuffix("OrCreate")
    if expected and expected not in _KINDS:
        raise VolumeFailure(f"hostPath type check failed: unknown type {kind}")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise VolumeFailure(f"hostPath type check failed: cannot access {path}: {error.strerror}") from error
    if expected and not _KINDS[expected][0](mode):
        raise VolumeFailure(f"hostPath type check failed: {path} is not {_KINDS[expected][1]}")
    return path
