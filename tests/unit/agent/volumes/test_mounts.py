"""subPath mounts stay inside the volume, whatever links a container has created."""

import ctypes
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.agent import mount_calls
from alcove.agent.runtime.config import BindMount, MemoryVolume
from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.mounts import VolumePath, container_mounts, memory_volume, sandbox_volumes
from alcove.api.objects import Object

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[VolumePath]:
    path = tmp_path / "volume"
    (path / "folder").mkdir(parents=True)
    (path / "folder/file").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    yield VolumePath(path, False, tmp_path / "parts")
    for each in mount_calls.mounts_below(tmp_path):
        mount_calls.unmount_all(each)


def mounts(volume: VolumePath, **asked: object) -> list[BindMount]:
    container: Object = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/data", **asked}]}
    return container_mounts({}, container, {"v": volume}, {"NAME": "folder"})


def test_whole_volumes(volume: VolumePath) -> None:
    assert mounts(volume) == [BindMount(str(volume.path), "/data")]
    assert mounts(volume, readOnly=True) == [BindMount(str(volume.path), "/data", read_only=True)]
    read_only = VolumePath(volume.path, True, volume.parts)
    assert mounts(read_only) == [BindMount(str(volume.path), "/data", read_only=True)]
    assert mounts(volume, mountPath="data") == mounts(volume)
    assert mounts(volume, mountPropagation="Bidirectional") == mounts(volume), "nothing comes through it"
    assert mounts(volume, readOnly=True, recursiveReadOnly="Enabled")[0].read_only
    node = VolumePath(volume.path, False, volume.parts, is_shared_with_node=True)
    assert mounts(volume, readOnly=True, recursiveReadOnly="Enabled")[0].recursive_read_only == ""
    for mode, expected in (("Enabled", "Enabled"), ("IfPossible", "IfPossible"), ("Disabled", "")):
        assert mounts(node, readOnly=True, recursiveReadOnly=mode)[0].recursive_read_only == expected
    assert mounts(node, mountPropagation="HostToContainer")[0].propagation == "rslave"


def test_a_sandbox_makes_memory_volumes_itself_unless_a_part_is_mounted(tmp_path: Path) -> None:
    memory = MemoryVolume("/marker", "rw,mode=777")
    paths = {
        name: VolumePath(
            tmp_path / name, False, tmp_path / "parts", memory=memory if name != "disk" else None
        )
        for name in ("whole", "divided", "disk")
    }
    mounts = [{"name": "whole", "mountPath": "/a"}, {"name": "divided", "mountPath": "/b", "subPath": "x"}]
    spec: Object = {"initContainers": [{"name": "i", "volumeMounts": mounts}], "containers": [{"name": "c"}]}
    found = sandbox_volumes(spec, paths)
    assert {name: (str(each.path), each.memory) for name, each in found.items()} == {
        "whole": ("/marker", memory),
        "divided": (str(tmp_path / "divided"), None),
        "disk": (str(tmp_path / "disk"), None),
    }


def test_the_options_of_a_memory_volume(tmp_path: Path) -> None:
    assert memory_volume(tmp_path, 0, None).options == "rw,mode=777"
    assert memory_volume(tmp_path, 4096, 7).options == "rw,mode=2777,gid=7,size=4096"


@pytest.mark.parametrize(
    "asked", [{"subPath": "folder"}, {"subPathExpr": "$(NAME)"}, {"subPath": "./folder//"}]
)
def test_a_folder_of_a_volume(volume: VolumePath, asked: Object) -> None:
    [mount] = mounts(volume, **asked)
    assert (Path(mount.source) / "file").read_text() == "inside"
    (Path(mount.source) / "new").write_text("x")
    assert (volume.path / "folder/new").exists()
    assert mounts(volume, **asked) == [mount]


def test_a_file_of_a_volume_and_then_a_folder_of_that_name(volume: VolumePath) -> None:
    [mount] = mounts(volume, subPath="folder/file")
    assert Path(mount.source).read_text() == "inside"
    [mount] = mounts(volume, subPath="folder")
    assert Path(mount.source).is_dir()


def test_a_missing_subpath_is_created_with_the_volumes_ownership(volume: VolumePath) -> None:
    os.chown(volume.path, 5, 6)
    volume.path.chmod(0o2770)
    mounts(volume, subPath="new/deep/er")
    for path in ("new", "new/deep", "new/deep/er"):
        state = (volume.path / path).stat()
        assert (state.st_uid, state.st_gid, state.st_mode & 0o7777) == (5, 6, 0o2770)
    with pytest.raises(VolumeFailure, match="No such file"):
        mounts(VolumePath(volume.path, True, volume.parts), subPath="other")


def test_links_inside_are_followed(volume: VolumePath) -> None:
    (volume.path / "link").symlink_to("folder/file")
    [mount] = mounts(volume, subPath="link")
    assert Path(mount.source).read_text() == "inside"


@pytest.mark.parametrize(
    "target",
    ["/", "/etc", "{outside}", "../outside", "folder/../../outside", "/proc/self/root", "/proc/self/cwd"],
)
@pytest.mark.parametrize("part", ["link", "link/file", "link/new", "folder/../link"])
def test_links_that_lead_out_are_not(volume: VolumePath, tmp_path: Path, target: str, part: str) -> None:
    (volume.path / "link").symlink_to(target.format(outside=tmp_path / "outside"))
    with pytest.raises(VolumeFailure):
        mounts(volume, subPath=part)
    assert mount_calls.mounts_below(tmp_path) == []
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["file"]


@pytest.mark.parametrize(
    "asked", [{"subPath": "../outside"}, {"subPath": "/etc"}, {"subPathExpr": "$(NAME)/../.."}]
)
def test_paths_that_say_so(volume: VolumePath, asked: Object) -> None:
    with pytest.raises(VolumeFailure, match="invalid subPath"):
        mounts(volume, **asked)


def test_variables_that_are_missing(volume: VolumePath) -> None:
    with pytest.raises(VolumeFailure, match="variable NONE is not set"):
        mounts(volume, subPathExpr="$(NONE)")


def test_a_link_that_is_swapped_all_the_time_never_leads_out(volume: VolumePath, tmp_path: Path) -> None:
    """The classic race: a folder while it is looked at, a link to the node's files when it is mounted."""
    swapped, link = volume.path / "swapped", volume.path / "to-outside"
    swapped.mkdir()
    (swapped / "file").write_text("inside")
    link.symlink_to(tmp_path / "outside")
    ended = threading.Event()

    def swap() -> None:
        rename = ctypes.CDLL(None).renameat2
        while not ended.is_set():
            assert not rename(_AT_FDCWD, bytes(swapped), _AT_FDCWD, bytes(link), _RENAME_EXCHANGE)

    attacker = threading.Thread(target=swap)
    attacker.start()
    refused = right = 0
    try:
        while refused + right < 2_000 or not refused or not right:
            try:
                [mount] = mounts(volume, subPath="swapped")
            except VolumeFailure:
                refused += 1
                continue
            found = Path(mount.source) / "file"
            assert not found.exists() or found.read_text() == "inside"
            right += 1
    finally:
        ended.set()
        attacker.join()
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["file"]


def test_what_is_not_mounted_and_devices(volume: VolumePath) -> None:
    with pytest.raises(VolumeFailure, match='volume "other" is not mounted'):
        container_mounts({}, {"volumeMounts": [{"name": "other", "mountPath": "/x"}]}, {"v": volume})
    with pytest.raises(VolumeFailure, match="Block"):
        container_mounts({}, {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}, {"v": volume})
