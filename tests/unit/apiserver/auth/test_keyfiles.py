"""Key files are complete or absent, private, and created once by concurrent processes."""

import os
import stat
import threading
from pathlib import Path

import pytest

from alcove.apiserver.auth import keyfiles
from alcove.apiserver.auth.keyfiles import KeyFileError


def test_creates_once_and_reads_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "pki" / "sa.key"
    assert keyfiles.read_or_create(path, lambda: b"first") == b"first"
    assert keyfiles.read_or_create(path, lambda: b"second") == b"first"


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "pki" / "sa.key"
    keyfiles.read_or_create(path, lambda: b"x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    keyfiles.replace(path, b"y")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_temporary_is_left(tmp_path: Path) -> None:
    keyfiles.read_or_create(tmp_path / "a", lambda: b"x")
    keyfiles.replace(tmp_path / "a", b"y")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"y"


def test_a_creator_that_loses_the_race_gets_the_winners_file(tmp_path: Path) -> None:
    path = tmp_path / "a"

    def lose() -> bytes:
        keyfiles.read_or_create(path, lambda: b"winner")
        return b"loser"

    assert keyfiles.read_or_create(path, lose) == b"winner"


def test_many_starters_agree(tmp_path: Path) -> None:
    path, found = tmp_path / "a", []
    barrier = threading.Barrier(8)

    def start(number: int) -> None:
        barrier.wait()
        found.append(keyfiles.read_or_create(path, lambda: b"%d" % number))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {path.read_bytes()}


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    path.mkdir()
    with pytest.raises(KeyFileError, match=r"cannot read .*sa\.key: Is a directory"):
        keyfiles.read(path)


def test_an_unwritable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "pki").write_text("a file in the directory's place")
    with pytest.raises(KeyFileError, match=r"cannot (read|write) .*sa\.key: Not a directory"):
        keyfiles.read_or_create(tmp_path / "pki" / "sa.key", lambda: b"x")
    assert os.listdir(tmp_path) == ["pki"]  # noqa: PTH208 - names, hidden ones too
