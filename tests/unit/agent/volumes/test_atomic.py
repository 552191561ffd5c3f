"""Directories whose files change all at once, also after a writer was killed at any step."""

import os
import threading
from pathlib import Path

import pytest

from alcove.agent.volumes import atomic
from alcove.agent.volumes.files import VolumeFile


def quiet(_step: str) -> None:
    pass


def files(**contents: str) -> dict[str, VolumeFile]:
    return {
        path.replace("__", "/"): VolumeFile(text.encode(), 0o644, os.getuid())
        for path, text in contents.items()
    }


def read(folder: Path) -> dict[str, str]:
    """What users see: nothing that begins with two dots."""
    found = {}
    for name in sorted(os.listdir(folder)):  # noqa: PTH208
        if not name.startswith(".."):
            top = folder / name
            for path in [top] if top.is_file() else sorted(each for each in top.rglob("*") if each.is_file()):
                found[str(path.relative_to(folder))] = path.read_text()
    return found


@pytest.fixture
def group() -> int:
    return os.getgid()


def test_contents_modes_and_links(tmp_path: Path, group: int) -> None:
    assert atomic.write(tmp_path, files(a="1", deep__b="2"), group, quiet)
    assert read(tmp_path) == {"a": "1", "deep/b": "2"}
    assert os.readlink(tmp_path / "a") == "..data/a"  # noqa: PTH115
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    assert not atomic.write(tmp_path, files(a="1", deep__b="2"), group, quiet), "nothing changed"
    assert atomic.write(tmp_path, files(a="1", c="3"), group, quiet)
    assert read(tmp_path) == {"a": "1", "c": "3"}
    assert len(list(tmp_path.glob("..2*"))) == 1
    assert atomic.write(tmp_path, {"a": VolumeFile(b"1", 0o600, os.getuid()), **files(c="3")}, group, quiet)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert atomic.write(tmp_path, {}, group, quiet)
    assert read(tmp_path) == {}


def test_a_reader_never_sees_half_of_a_change(tmp_path: Path, group: int) -> None:
    atomic.write(tmp_path, files(a="0", b="0"), group, quiet)
    ended = threading.Event()
    torn: list[tuple[str, str]] = []

    looks = [0]

    def look() -> None:
        while not ended.is_set():
            try:
                folder = os.open(tmp_path / "..data", os.O_RDONLY)
            except FileNotFoundError:
                continue  # What the link meant was replaced before it could be opened.
            try:
                seen = []
                for name in ("a", "b"):
                    with open(os.open(name, os.O_RDONLY, dir_fd=folder)) as file:  # noqa: PTH123
                        seen.append(file.read())
                looks[0] += 1
                if seen[0] != seen[1]:
                    torn.append((seen[0], seen[1]))
            except FileNotFoundError:
                pass  # The whole of what was before is gone: the reader opens the link again.
            finally:
                os.close(folder)

    reader = threading.Thread(target=look)
    reader.start()
    number = 0
    while number < 200 or looks[0] <= 10:
        atomic.write(tmp_path, files(a=str(number), b=str(number)), group, quiet)
        number += 1
    ended.set()
    reader.join()
    assert torn == []


class Killed(BaseException):
    pass


def test_stopped_at_any_step_the_old_or_the_new_is_there_and_the_next_writer_cleans(
    tmp_path: Path, group: int
) -> None:
    old, new = files(a="old", gone="x"), files(a="new", added="y")
    steps = 0
    while True:
        folder = tmp_path / str(steps)
        folder.mkdir()
        atomic.write(folder, old, group, quiet)
        left = [steps]

        def stop(_step: str, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        try:
            atomic.write(folder, new, group, stop)
        except Killed:
            assert (folder / "a").read_text() in ("old", "new")
            atomic.write(folder, new, group, quiet)
        else:
            break
        assert read(folder) == {"a": "new", "added": "y"}
        hidden = sorted(name for name in os.listdir(folder) if name.startswith(".."))  # noqa: PTH208
        assert len(hidden) == 2 and hidden[1] == "..data"
        steps += 1
    assert steps >= 6
