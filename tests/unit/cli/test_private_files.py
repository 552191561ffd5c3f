"""Files that appear complete or not at all."""

from pathlib import Path

import pytest

from alcove.cli.private_files import new_file


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with new_file(path) as out:
        out.write(b"content")
        assert not path.exists()
    assert path.read_bytes() == b"content" and path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_a_file_that_failed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_file(tmp_path / "file") as out:
        out.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(FileExistsError), new_file(path):
        pass
    path.unlink()
    with pytest.raises(FileExistsError), new_file(path) as out:
        path.write_text("made meanwhile")
        out.write(b"new")
    assert path.read_text() == "made meanwhile"
