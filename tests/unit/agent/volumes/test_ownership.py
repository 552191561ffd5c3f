"""Volumes are given to a pod's fsGroup, with all their files."""

import gc
import os
from pathlib import Path

import pytest

from alcove.agent import file_trees
from alcove.agent.volumes import ownership
from alcove.testing.server import wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
GROUP = 4321


def test_everything_becomes_the_groups(tmp_path: Path) -> None:
    top = tmp_path / "volume"
    (top / "deep/er").mkdir(parents=True)
    (top / "deep/er/file").write_text("x")
    (top / "deep/er/file").chmod(0o600)
    assert not ownership.is_owned(top, GROUP)
    ownership.set_group_ownership(top, GROUP)
    assert ownership.is_owned(top, GROUP)
    for path, mode in (("", 0o2775), ("deep", 0o2775), ("deep/er", 0o2775), ("deep/er/file", 0o660)):
        state = (top / path).stat()
        assert (state.st_gid, state.st_mode & 0o7777) == (GROUP, mode), path


def test_links_are_given_themselves_and_never_followed(tmp_path: Path) -> None:
    outside, top = tmp_path / "outside", tmp_path / "volume"
    for folder in (outside, top):
        folder.mkdir()
    (outside / "file").write_text("x")
    (outside / "file").chmod(0o600)
    (top / "to-file").symlink_to(outside / "file")
    (top / "to-folder").symlink_to(outside)
    (top / "dangling").symlink_to("nowhere")
    ownership.set_group_ownership(top, GROUP)
    for path in (outside, outside / "file"):
        assert path.stat().st_gid == 0
    assert (outside / "file").stat().st_mode & 0o777 == 0o600
    assert (top / "to-file").lstat().st_gid == GROUP


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    os.mknod(tmp_path / "device", 0o600 | 0o020000, os.makedev(1, 3))
    ownership.set_group_ownership(tmp_path, GROUP)
    assert (tmp_path / "fifo").stat().st_gid == (tmp_path / "device").stat().st_gid == GROUP


def test_any_depth(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(2_000):
        os.mkdir("d" * 20, dir_fd=here)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    gc.collect()  # Files of earlier tests are not closed meanwhile.
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    ownership.set_group_ownership(top, GROUP)
    assert os.fstat(here).st_gid == GROUP
    # What other threads of this process opened meanwhile is closed again.
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)  # noqa: PTH208
    os.close(here)
    file_trees.remove(top)  # Deeper than pytest can clean up.
