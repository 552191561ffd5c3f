"""A folder whose files change all at once: whoever reads them sees all as they were, or all as they are.

    <folder>/..2026_01_02_03_04_05.123    the files, in a folder of their own for each change
    <folder>/..data                       a link to the one that counts: changing it changes everything
    <folder>/name                         links into ..data, by which users know the files

Only this process writes there; containers get it read only.
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


def write(folder: Path, files: Mapping[str, VolumeFile], group: int | None, checkpoint: Checkpoint) -> bool:
    """Whether anything changed. Safe to repeat, and from any point on where another was stopped."""
    current = _current(folder)
    is_new = current is None or not _is_same(current, files, group)
    if is_new:
        made = Path(tempfile.mkdtemp(prefix=time.strftime("..%Y_%m_%d_%H_%M_%S."), dir=folder))
        checkpoint("make folder of files")
        _fill(made, files, group)
        checkpoint("write files")
        (folder / _DRAFT).unlink(missing_ok=True)
        (folder / _DRAFT).symlink_to(made.name)
        checkpoint("link draft")
        (folder / _DRAFT).rename(folder / DATA)
        checkpoint("swap")
        current = made
    assert current is not None
    _link(folder, {path.partition("/")[0] for path in files}, checkpoint)
    _remove_others(folder, current.name)
    return is_new


def _current(folder: Path) -> Path | None:
    try:
        return folder / (folder / DATA).readlink()
    except FileNotFoundError:
        return None


def _is_same(current: Path, files: Mapping[str, VolumeFile], group: int | None) -> bool:
    try:
        found = {str(path.relative_to(current)) for path in current.rglob("*") if not path.is_dir()}
        return found == set(files) and all(
            _is_as(current / path, each, group) for path, each in files.items()
        )
    except FileNotFoundError:
        return False


def _is_as(path: Path, file: VolumeFile, group: int | None) -> bool:
    state = path.stat()
    owner = (file.uid, group or 0, file.mode)
    is_alike = (state.st_uid, state.st_gid, state.st_mode & 0o777) == owner
    return is_alike and state.st_size == len(file.content) and path.read_bytes() == file.content


def _fill(made: Path, files: Mapping[str, VolumeFile], group: int | None) -> None:
    made.chmod(0o755)
    for path, file in files.items():
        target = made / path
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with target.open("xb") as opened:
            os.fchown(opened.fileno(), file.uid, group or 0)
            os.fchmod(opened.fileno(), file.mode)
            opened.write(file.content)


def _link(folder: Path, names: set[str], checkpoint: Checkpoint) -> None:
    there = {entry.name for entry in os.scandir(folder) if not entry.name.startswith("..")}
    for name in sorted(names - there):
        (folder / name).symlink_to(f"{DATA}/{name}")
        checkpoint("link name")
    for name in there - names:
        (folder / name).unlink()
        checkpoint("unlink name")


def _remove_others(folder: Path, kept: str) -> None:
    for entry in list(os.scandir(folder)):
        if entry.name.startswith("..") and entry.name not in (kept, DATA):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()
