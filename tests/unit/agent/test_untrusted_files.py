"""Files that a tenant made are read up to a limit, and only if they are files in the given directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alcove.agent.untrusted_files import read_head


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"abc")
        file.truncate(60 << 30)
    assert read_head(tmp_path, "sparse", 3) == b"abc"


@pytest.mark.parametrize(
    "name", ["file", "folder/file", "pipe", "up/secret", "missing", "device", "self", "dir"]
)
def test_what_is_not_a_file_in_the_directory_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    directory = tmp_path / "pod"
    (directory / "dir").mkdir(parents=True)
    (directory / "file").symlink_to(tmp_path / "secret")
    (directory / "folder").symlink_to(tmp_path)
    (directory / "up").symlink_to("..")
    (directory / "device").symlink_to("/dev/zero")
    (directory / "self").symlink_to("/proc/self/environ")
    os.mkfifo(directory / "pipe")
    assert read_head(directory, name, 100) is None


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "a\0b"])
def test_a_path_that_leads_out_of_the_directory_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    directory = tmp_path / "pod"
    (directory / "a").mkdir(parents=True)
    assert read_head(directory, name, 100) is None
