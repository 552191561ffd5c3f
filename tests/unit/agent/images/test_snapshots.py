"""Containers' root file systems: the image is never changed, and removal leaves nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from alcove.agent import file_trees
from alcove.agent.images.snapshots import MountFailed, OverlaySnapshots, unmount

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.mkdir()
    (path / "file").write_text("image's")
    (path / "gone").write_text("image's")
    return path


def test_what_is_written_is_the_containers_own(tmp_path: Path, image: Path) -> None:
    snapshots = OverlaySnapshots(tmp_path / "snapshots")
    try:
        one, two = snapshots.mount("one", image), snapshots.mount("two", image)
        (one / "file").write_text("one's")
        (one / "gone").unlink()
        (one / "new").write_bytes(b"x" * 100_000)
        assert (two / "file").read_text() == (image / "file").read_text() == "image's"
        assert (two / "gone").exists()
        sizes = file_trees.used_bytes([path for [(_, path)] in snapshots.layers().values()])
        assert list(snapshots.layers()) == ["one", "two"] and sizes[0] >= 100_000 > sizes[1]
        assert snapshots.mount("one", image) == one
        assert (one / "file").read_text() == "one's"
    finally:
        for id in snapshots.ids():
            snapshots.remove(id)
    assert snapshots.ids() == []
    assert (image / "file").read_text() == "image's"


def test_removing_is_safe_to_repeat_and_from_any_point(tmp_path: Path, image: Path) -> None:
    snapshots = OverlaySnapshots(tmp_path / "snapshots")
    snapshots.remove("never")
    (tmp_path / "snapshots/half/upper").mkdir(parents=True)
    snapshots.remove("half")
    root = snapshots.mount("busy", image)
    with (root / "file").open() as held:
        snapshots.remove("busy")
        assert held.read() == "image's"
    snapshots.remove("busy")
    assert snapshots.ids() == []
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_all_of_a_pod_go_and_no_others(tmp_path: Path, image: Path) -> None:
    snapshots = OverlaySnapshots(tmp_path / "snapshots")
    for id in ("pod", "pod.main.0", "pod.main.1", "pod2.main.0"):
        snapshots.mount(id, image)
    snapshots.remove_all("pod")
    snapshots.remove_all("pod")
    assert snapshots.ids() == ["pod2.main.0"]
    snapshots.remove_all("pod2")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_files_belong_to_the_users_of_a_user_namespace(tmp_path: Path, image: Path) -> None:
    holder = subprocess.Popen(["unshare", "--user", "sleep", "1000"])
    snapshots = OverlaySnapshots(tmp_path / "snapshots")
    try:
        _map(holder.pid, 300_000)
        root = snapshots.mount("mapped", image, f"/proc/{holder.pid}/ns/user")
        assert (root / "file").stat().st_uid == 300_000
        assert root.stat().st_uid == 300_000
        assert (image / "file").stat().st_uid == 0
    finally:
        snapshots.remove("mapped")
        holder.kill()
        holder.wait()
    assert (image / "file").read_text() == "image's"
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def _map(pid: int, start: int) -> None:
    own = Path("/proc/self/ns/user").readlink()
    while Path(f"/proc/{pid}/ns/user").readlink() == own:
        os.sched_yield()
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{pid}/{name}").write_text(f"0 {start} 65536")


def test_a_failed_mount_is_reported(tmp_path: Path) -> None:
    snapshots = OverlaySnapshots(tmp_path / "snapshots")
    with pytest.raises(MountFailed):
        snapshots.mount("x", tmp_path / "missing")
    assert not unmount(tmp_path / "nothing")
    snapshots.remove("x")
