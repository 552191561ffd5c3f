"""Removing and measuring file trees that hostile containers have created."""

import os
import subprocess
from pathlib import Path

import pytest

from alcove.agent import file_trees

FILE_BYTES = 1 << 20


def _deepen(path: Path, levels: int) -> None:
    """Deeper than a path can say, and than Python recurses; with a file at the very bottom."""
    here = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with os.fdopen(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(b"x" * FILE_BYTES)
    os.close(here)


def test_any_depth_is_measured_and_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    _deepen(tree, 3_000)
    assert file_trees.used_bytes([tree])[0] >= FILE_BYTES  # Folders take nothing on a tmpfs.
    file_trees.remove(tree)
    assert not tree.exists()
    file_trees.remove(tree)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    for path in (outside, tree):
        path.mkdir()
    (outside / "kept").write_bytes(b"x" * 1_000_000)
    (tree / "link").symlink_to(outside)
    assert file_trees.used_bytes([tree])[0] < 100_000
    file_trees.remove(tree)
    assert (outside / "kept").exists()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    file_trees.remove(tmp_path / "dangling")
    assert not (tmp_path / "dangling").is_symlink()


def test_what_is_measured_together(tmp_path: Path) -> None:
    (tmp_path / "a\nb").mkdir()
    (tmp_path / "a\nb/file").write_bytes(b"x" * 1_000_000)
    sizes = file_trees.used_bytes([tmp_path / "missing", tmp_path / "a\nb"])
    assert sizes[0] == 0 and sizes[1] >= 1_000_000
    assert file_trees.used_bytes([]) == []


def test_files_are_counted_and_what_takes_too_long_is_cut(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"tree{number}").mkdir()
    for number in range(9):
        (tmp_path / "tree0" / str(number)).touch()
    paths = [tmp_path / "tree0", tmp_path / "missing", tmp_path / "tree1"]
    usages = file_trees.usages(paths, 60.0)
    assert [each.files for each in usages] == [10, 0, 1] and not any(each.is_cut for each in usages)
    assert [each.is_cut for each in file_trees.usages(paths, 0.0)] == [True, False, False]


def test_flushing(tmp_path: Path) -> None:
    file_trees.flush(tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        file_trees.flush(tmp_path / "missing")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.root
def test_a_failed_removal_is_reported() -> None:
    with pytest.raises(OSError, match="cannot remove"):
        file_trees.remove(Path("/proc/self"))
