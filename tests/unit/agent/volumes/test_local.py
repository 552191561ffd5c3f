"""Persistent volumes: they have their size, are separate from each other, and are wiped completely."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from alcove.agent.volumes import local
from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.local import LocalVolume, LocalVolumeStore
from alcove.api.ids import TenantId
from alcove.testing.needs import loop_devices

SIZE = 16 << 20
SECRET = b"the-secret-of-acme"


pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(loop_devices()), reason=loop_devices())]


def quiet(_step: str) -> None:
    pass


def volume(tenant: str = "acme", uid: str = "u1") -> LocalVolume:
    return LocalVolume(TenantId(tenant), "pv-1", uid, SIZE)


@pytest.fixture
def volumes(tmp_path: Path) -> Iterator[LocalVolumeStore]:
    made = LocalVolumeStore(tmp_path / "local", quiet)
    yield made
    for each in made.all():
        made.unmount(each.id)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_a_volume_has_its_size_and_no_more(volumes: LocalVolumeStore) -> None:
    data = volumes.mount(volume())
    assert list(data.iterdir()) == []
    assert data.stat().st_mode & 0o777 == 0o777
    with pytest.raises(OSError, match="No space left"):
        (data / "big").write_bytes(bytes(SIZE))
    (data / "big").unlink()
    (data / "most").write_bytes(bytes(SIZE * 8 // 10))


def test_disk_space_is_allocated_when_the_volume_is_created(
    volumes: LocalVolumeStore, tmp_path: Path
) -> None:
    volumes.mount(volume())
    image = tmp_path / "local" / volume().id / "image"
    # mkfs may give a few blocks back.
    assert image.stat().st_blocks * 512 >= SIZE * 99 // 100


def test_data_stays_over_unmounts(volumes: LocalVolumeStore) -> None:
    data = volumes.mount(volume())
    (data / "file").write_text("kept")
    assert volumes.mount(volume()) == data
    volumes.unmount(volume().id)
    volumes.unmount(volume().id)
    assert not data.exists()
    assert (volumes.mount(volume()) / "file").read_text() == "kept"


def test_mounted_again_while_something_has_it_open_it_is_the_same(volumes: LocalVolumeStore) -> None:
    data = volumes.mount(volume())
    with (data / "file").open("w") as held:
        volumes.unmount(volume().id)
        data = volumes.mount(volume())
        held.write("still written")
        held.flush()
        assert (data / "file").read_text() == "still written"
        volumes.unmount(volume().id)
        assert not volumes.wipe(volume()), "it is open"
    assert volumes.wipe(volume())


@pytest.mark.parametrize("other", [volume(tenant="bolt"), volume(uid="u2"), volume(uid="../../u1")])
def test_volumes_of_other_tenants_and_planes_are_separate(
    volumes: LocalVolumeStore, other: LocalVolume
) -> None:
    (volumes.mount(volume()) / "file").write_text("mine")
    assert list(volumes.mount(other).iterdir()) == []
    assert {each.id for each in volumes.all()} == {volume().id, other.id}


def test_growing_while_it_is_not_used(volumes: LocalVolumeStore) -> None:
    data = volumes.mount(volume())
    (data / "file").write_text("kept")
    for times in (2, 4):
        volumes.unmount(volume().id)
        volumes.mount(structs.replace(volume(), size_bytes=times * SIZE))
        assert _size(data) > (times - 1) * SIZE
        assert (data / "file").read_text() == "kept"
    known = volumes.find(volume().id)
    assert known is not None and known.size_bytes == 4 * SIZE


def test_growing_while_it_is_used_or_when_it_is_next_mounted(volumes: LocalVolumeStore) -> None:
    data = volumes.mount(volume())
    (data / "file").write_text("kept")
    wanted = structs.replace(volume(), size_bytes=2 * SIZE)
    volumes.mount(wanted)
    assert (_size(data) > SIZE) == local._can_resize_online()
    volumes.unmount(volume().id)
    volumes.mount(wanted)
    assert _size(data) > SIZE
    assert (data / "file").read_text() == "kept"


def _size(data: Path) -> int:
    disk = os.statvfs(data)
    return disk.f_blocks * disk.f_frsize


def test_what_was_written_is_overwritten(volumes: LocalVolumeStore, tmp_path: Path) -> None:
    data = volumes.mount(volume())
    (data / "file").write_bytes(SECRET * 10_000)
    volumes.unmount(volume().id)
    image = tmp_path / "local" / volume().id / "image"
    with image.open("rb") as held:  # What is on the disk in its place, after it is gone.
        assert SECRET in held.read()
        assert volumes.wipe(volume())
        held.seek(0)
        assert not any(held.read())
    assert not image.exists()
    assert volumes.all() == []
    assert volumes.wipe(volume())


def test_a_new_volume_has_no_data_of_a_removed_one(volumes: LocalVolumeStore, tmp_path: Path) -> None:
    for _ in range(3):
        data = volumes.mount(volume())
        image = tmp_path / "local" / volume().id / "image"
        assert SECRET not in image.read_bytes()
        (data / "file").write_bytes(SECRET * 100_000)
        volumes.unmount(volume().id)
        volumes.wipe(volume())


def test_a_full_disk_is_reported_and_nothing_is_left(volumes: LocalVolumeStore, tmp_path: Path) -> None:
    with pytest.raises(VolumeFailure, match="no space left on device"):
        volumes.mount(structs.replace(volume(), size_bytes=1 << 60))
    assert list((tmp_path / "local" / volume().id).iterdir()) == []
    assert volumes.wipe(volume())


def test_a_volume_whose_data_is_missing_is_not_created_again(
    volumes: LocalVolumeStore, tmp_path: Path
) -> None:
    volumes.mount(volume())
    volumes.unmount(volume().id)
    (tmp_path / "local" / volume().id / "image").unlink()
    with pytest.raises(VolumeFailure, match="is missing on this node"):
        volumes.mount(volume())


def test_a_broken_file_system_is_reported(volumes: LocalVolumeStore, tmp_path: Path) -> None:
    volumes.mount(volume())
    volumes.unmount(volume().id)
    with (tmp_path / "local" / volume().id / "image").open("r+b") as image:
        image.write(bytes(1 << 20))
    with pytest.raises(VolumeFailure, match=r"^mount: "):
        volumes.mount(volume())


def test_missing_tools_are_reported(volumes: LocalVolumeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(VolumeFailure, match=r"mkfs\.ext4 is not installed"):
        volumes.mount(volume())


class Killed(BaseException):
    pass


@pytest.mark.parametrize("work", ["make", "grow", "wipe"])
def test_after_a_kill_at_any_step_the_next_run_completes(tmp_path: Path, work: str) -> None:
    steps = 0
    while True:
        folder = tmp_path / f"{steps}"
        wanted = volume() if work != "grow" else structs.replace(volume(), size_bytes=2 * SIZE)
        first = LocalVolumeStore(folder, quiet)
        if work != "make":
            (first.mount(volume()) / "file").write_text("kept")
            first.unmount(volume().id)
        left = [steps]

        def stop(_step: str, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        stopped, after = LocalVolumeStore(folder, stop), LocalVolumeStore(folder, quiet)
        is_done = False
        try:
            stopped.wipe(wanted) if work == "wipe" else stopped.mount(wanted)
            is_done = True
        except Killed:
            pass
        if work == "wipe":
            assert after.wipe(wanted)
        else:
            data = after.mount(wanted)
            assert work == "make" or (data / "file").read_text() == "kept"
            assert os.statvfs(data).f_blocks * os.statvfs(data).f_frsize > wanted.size_bytes // 2
            after.unmount(wanted.id)
            assert after.wipe(wanted)
        assert list(folder.iterdir()) == []
        if is_done:
            break
        steps += 1
    assert steps >= 2
    assert local._loop_device(tmp_path / "none") is None
