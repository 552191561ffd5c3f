"""A directory whose files are replaced atomically: readers see either all old or all new files (kubelet's
AtomicWriter).

    <directory>/..2026_01_02_03_04_05.123    the files; a new directory for each change
    <directory>/..data                       a symbolic link to the current one, replaced atomically
    <directory>/name                         symbolic links into ..data, one per file

Only this process writes there; containers mount it read-only.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from alcove.agent.volumes.files import VolumeFile

DATA = "..data"
_DRAFT = "..data_tmp"

Checkpoint = Callable[[str], None]


def write(
    directory: Path, files: Mapping[str, VolumeFile], group: int | None, checkpoint: Checkpoint
) -> bool:
    """Writes the files; returns whether anything changed. Idempotent, also after an earlier call was
    interrupted."""
    current = _current(directory)
    is_new = current is None or not _is_same(current, files, group)
    if is_new:
        new = Path(tempfile.mkdtemp(prefix=time.strftime("..%Y_%m_%d_%H_%M_%S."), dir=directory))
        checkpoint("make folder of files")
        _fill(new, files, group)
        checkpoint("write files")
        (directory / _DRAFT).unlink(missing_ok=True)
        (directory / _DRAFT).symlink_to(new.name)
        checkpoint("link draft")
        (directory / _DRAFT).rename(directory / DATA)
        checkpoint("swap")
        current = new
    assert current is not None
    _link(directory, {path.partition("/")[0] for path in files}, checkpoint)
    _remove_others(directory, current.name)
    return is_new


def _current(directory: Path) -> Path | None:
    try:
        return directory / (directory / DATA).readlink()
    except FileNotFoundError:
        return None


def _is_same(current: Path, files: Mapping[str, VolumeFile], group: int | None) -> bool:
    try:
        paths = {str(path.relative_to(current)) for path in current.rglob("*") if not path.is_dir()}
        return paths == set(files) and all(
            _is_same_file(current / path, each, group) for path, each in files.items()
        )
    except FileNotFoundError:
        return False


def _is_same_file(path: Path, file: VolumeFile, group: int | None) -> bool:
    state = path.stat()
    owner = (file.uid, group or 0, file.mode)
    is_alike = (state.st_uid, state.st_gid, state.st_mode & 0o777) == owner
    return is_alike and state.st_size == len(file.content) and path.read_bytes() == file.content


def _fill(new: Path, files: Mapping[str, VolumeFile], group: int | None) -> None:
    new.chmod(0o755)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with target.open("xb") as opened:
            os.fchown(opened.fileno(), file.uid, group or 0)
            os.fchmod(opened.fileno(), file.mode)
            opened.write(file.content)


def _link(directory: Path, names: set[str], checkpoint: Checkpoint) -> None:
    existing = {entry.name for entry in os.scandir(directory) if not entry.name.startswith("..")}
    for name in sorted(names - existing):
        (directory / name).symlink_to(f"{DATA}/{name}")
        checkpoint("link name")
    for name in existing - names:
        (directory / name).unlink()
        checkpoint("unlink name")


def _remove_others(directory: Path, current: str) -> None:
    for entry in list(os.scandir(directory)):
        if entry.name.startswith("..") and entry.name not in (current, DATA):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()
