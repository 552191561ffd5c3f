"""Mounts and paths as the kernel has them."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.agent import mount_calls
from alcove.agent.mount_calls import MountFailed

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "with a blank, ünd more\\"
    path.mkdir()
    yield path
    for mounted in mount_calls.mounts_below(path):
        mount_calls.unmount_all(mounted)


def descriptor(path: Path) -> int:
    return os.open(path, os.O_PATH)


def test_mounts_are_found_deepest_first_and_unmounted(folder: Path) -> None:
    for path in (folder / "a", folder / "a/b"):
        path.mkdir()
        mount_calls.mount("tmpfs", path, "tmpfs", mount_calls.MS_NODEV, "size=64k")
        mount_calls.mount("tmpfs", path, "tmpfs", mount_calls.MS_NODEV, "size=64k")
    assert mount_calls.mounts_below(folder)[0] == folder / "a/b"
    for path in mount_calls.mounts_below(folder):
        mount_calls.unmount_all(path)
    assert mount_calls.mounts_below(folder) == []
    assert not mount_calls.unmount(folder / "a")
    assert not mount_calls.unmount(folder / "missing")


def test_neighbours_are_not_below(folder: Path) -> None:
    other = Path(f"{folder}x")
    other.mkdir()
    mount_calls.mount("tmpfs", other, "tmpfs", 0, "")
    try:
        assert mount_calls.mounts_below(folder) == []
    finally:
        mount_calls.unmount_all(other)


def test_binds_keep_out_devices_and_writes(folder: Path) -> None:
    source, target = folder / "source", folder / "target"
    for path in (source, target):
        path.mkdir()
    os.mknod(source / "null", 0o666 | 0o020000, os.makedev(1, 3))
    assert mount_calls.has_devices(source)
    held = descriptor(source)
    mount_calls.bind(held, target, nodev=True, read_only=True)
    os.close(held)
    assert not mount_calls.has_devices(target)
    with pytest.raises(PermissionError):
        (target / "null").read_bytes()
    with pytest.raises(OSError, match="Read-only"):
        (target / "new").touch()
    assert (source / "null").read_bytes() == b""
    (source / "new").touch()
    assert (target / "new").exists()


def test_a_failed_mount_is_reported(folder: Path) -> None:
    with pytest.raises(MountFailed, match="No such file"):
        mount_calls.mount("tmpfs", folder / "missing", "tmpfs", 0, "")
    with pytest.raises(MountFailed):
        mount_calls.bind(descriptor(folder), folder / "missing")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("file", 0),
        ("inner", 0),
        ("folder/../file", 0),
        ("", 0),
        ("missing", errno.ENOENT),
        ("..", errno.EXDEV),
        ("/", errno.EXDEV),
        ("outer", errno.EXDEV),
        ("absolute", errno.EXDEV),
        ("circle", errno.ELOOP),
        ("mounted", errno.EXDEV),
    ],
)
def test_paths_stay_beneath(folder: Path, path: str, expected: int) -> None:
    (folder / "file").touch()
    (folder / "folder").mkdir()
    (folder / "inner").symlink_to("folder/../file")
    (folder / "outer").symlink_to("..")
    (folder / "absolute").symlink_to(folder / "file")
    (folder / "circle").symlink_to("circle")
    (folder / "mounted").mkdir()
    mount_calls.mount("tmpfs", folder / "mounted", "tmpfs", 0, "")
    top = descriptor(folder)
    try:
        os.close(mount_calls.open_beneath(top, path, os.O_PATH))
        assert expected == 0
    except OSError as error:
        assert error.errno == expected
    finally:
        os.close(top)


def test_links_of_processes_are_not_followed() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    top = os.open(f"/proc/{process.pid}", os.O_PATH)
    try:
        for link in ("root", "cwd", "exe"):
            with pytest.raises(OSError, match=r"symbolic links|cross-device"):
                mount_calls.open_beneath(top, link, os.O_PATH)
    finally:
        os.close(top)
        process.kill()
        process.wait()
