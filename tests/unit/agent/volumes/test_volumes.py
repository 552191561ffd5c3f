"""A pod's volumes on a node, looked up from a real API server: mounted, refreshed, removed."""

import base64
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path

import jwt
import pytest
import pytest_asyncio
from msgspec import structs

from alcove.agent import mount_calls
from alcove.agent.images.model import Image, ImageUnavailable
from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.runtime.config import ImageConfig
from alcove.agent.volumes import PodVolumes, VolumeFailure
from alcove.agent.volumes.mounts import VolumePath
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.testing.claims import free_port
from alcove.testing.lookups import in_default, looking_up, make_pod
from alcove.testing.server import LocalServer

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
_NUMBERS = count(1)
GROUP = 4321


class World:
    def __init__(self, server: LocalServer, lookup: ObjectLookup, folder: Path, tenant: str) -> None:
        self.server, self.lookup, self.folder, self.tenant = server, lookup, folder, tenant
        self.now = 1_900_000_000.0
        self.volumes = self.restarted()

    def restarted(self, checkpoint: Callable[[str], None] = lambda _step: None) -> PodVolumes:
        """As an agent that starts anew has them."""
        self.volumes = PodVolumes(
            self.folder,
            self.lookup,
            lambda: self.now,
            node="here",
            allocatable=lambda: {"memory": "1Gi"},
            checkpoint=checkpoint,
        )
        return self.volumes

    def pod(self, volumes: list[Object], **spec: object) -> tuple[PodKey, Object]:
        return make_pod(self.server, self.tenant, {"volumes": volumes, **spec})

    def put(self, what: str, name: str, data: Object) -> None:
        path = in_default(self.tenant, what)
        answer = self.server.system.post(path, {"metadata": {"name": name}, "data": data})
        if answer.status == 409:
            answer = self.server.system.patch(f"{path}/{name}", {"data": data})
        assert answer.status in (200, 201), answer.body

    def mounts(self) -> list[str]:
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return [line.split()[1] for line in lines if str(self.folder) in line]


@pytest_asyncio.fixture
async def world(server: LocalServer, tmp_path: Path) -> AsyncIterator[World]:
    tenant = f"volumes-{next(_NUMBERS)}"
    server.make_tenant(tenant)
    async with looking_up(server) as lookup:
        made = World(server, lookup, tmp_path / "volumes", tenant)
        yield made
        for key in made.volumes.ids():
            await made.volumes.unmount(key)
        assert made.mounts() == []
        assert list((tmp_path / "volumes/pods").iterdir()) == []


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith("..")}


# Files made of objects


async def test_config_maps_and_secrets_come_up_to_date_at_once(world: World) -> None:
    world.put("configmaps", "m", {"a": "1", "b": "1"})
    world.put("secrets", "s", {"key": b64("hidden")})
    key, pod = world.pod(
        [
            {"name": "m", "configMap": {"name": "m", "defaultMode": 0o440}},
            {
                "name": "s",
                "secret": {"secretName": "s", "items": [{"key": "key", "path": "in/side", "mode": 0o400}]},
            },
        ]
    )
    paths = await world.volumes.mount(key, pod)
    m, s = paths["m"].path, paths["s"].path
    assert (m / "a").read_text() == "1" and (s / "in/side").read_text() == "hidden"
    assert (m / "a").stat().st_mode & 0o777 == 0o440 and (s / "in/side").stat().st_mode & 0o777 == 0o400
    assert paths["m"].read_only and paths["s"].read_only
    assert [path for path in world.mounts() if str(s).startswith(path)], "secrets are in memory"
    world.put("configmaps", "m", {"a": "2", "b": None, "c": "2"})
    before = (m / "..data").readlink()
    await world.volumes.refresh(key, pod)
    assert ((m / "a").read_text(), names(m)) == ("2", {"a", "c"})
    assert (m / "..data").readlink() != before
    assert await world.volumes.mount(key, pod) == paths


async def test_what_is_missing_keeps_the_pod_waiting_and_then_comes(world: World) -> None:
    key, pod = world.pod([{"name": "m", "configMap": {"name": "late"}}])
    with pytest.raises(VolumeFailure) as failure:
        await world.volumes.mount(key, pod)
    assert failure.value.reason == "FailedMount"
    assert failure.value.message == 'MountVolume.SetUp failed for volume "m" : configmap "late" not found'
    world.put("configmaps", "late", {"a": "1"})
    assert ((await world.volumes.mount(key, pod))["m"].path / "a").read_text() == "1"


async def test_optional_objects_may_come_and_go(world: World) -> None:
    key, pod = world.pod([{"name": "m", "configMap": {"name": "maybe", "optional": True}}])
    folder = (await world.volumes.mount(key, pod))["m"].path
    assert names(folder) == set()
    world.put("configmaps", "maybe", {"a": "1"})
    await world.volumes.refresh(key, pod)
    assert names(folder) == {"a"}
    assert world.server.system.delete(in_default(world.tenant, "configmaps/maybe")).status == 200
    await world.volumes.refresh(key, pod)
    assert names(folder) == set()


async def test_a_running_pod_keeps_what_it_has_when_objects_vanish(world: World) -> None:
    world.put("configmaps", "m", {"a": "1"})
    world.put("configmaps", "other", {"a": "1"})
    volumes = [{"name": name, "configMap": {"name": name}} for name in ("m", "other")]
    key, pod = world.pod(volumes)
    paths = await world.volumes.mount(key, pod)
    assert world.server.system.delete(in_default(world.tenant, "configmaps/m")).status == 200
    world.put("configmaps", "other", {"a": "2"})
    with pytest.raises(VolumeFailure, match='configmap "m" not found'):
        await world.volumes.refresh(key, pod)
    assert (paths["m"].path / "a").read_text() == "1"
    assert (paths["other"].path / "a").read_text() == "2", "others are not held up"
    assert await world.restarted().mount(key, pod) == paths


async def test_projected_volumes_hold_tokens_that_are_renewed(world: World) -> None:
    world.put("configmaps", "m", {"ca": "root"})
    sources: list[Object] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 1000, "audience": "somebody"}},
        {"configMap": {"name": "m"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    key, pod = world.pod([{"name": "p", "projected": {"sources": sources}}])
    world.now = time.time()
    folder = (await world.volumes.mount(key, pod))["p"].path
    assert names(folder) == {"token", "ca", "namespace"}
    assert (folder / "namespace").read_text() == "default"
    first = (folder / "token").read_text()
    claims = jwt.decode(first, options={"verify_signature": False})
    assert claims["aud"] == ["somebody"] and claims["kubernetes.io"]["pod"]["uid"] == key.uid
    world.now += 790
    await world.volumes.refresh(key, pod)
    await world.restarted().refresh(key, pod)
    assert (folder / "token").read_text() == first, "also an agent that starts anew keeps it"
    world.now += 20
    await world.volumes.refresh(key, pod)
    second = (folder / "token").read_text()
    assert second != first, "at 80 % of its life"
    world.now -= 5_000
    await world.volumes.refresh(key, pod)
    assert (folder / "token").read_text() != second, "the clock was set back: nobody knows when it ends"


@pytest.mark.parametrize(
    ("context", "mode", "uid", "gid"),
    [
        ({}, 0o644, 0, 0),
        ({"runAsUser": 1000}, 0o600, 1000, 0),
        ({"fsGroup": GROUP}, 0o640, 0, GROUP),
        ({"runAsUser": 1000, "fsGroup": GROUP}, 0o640, 1000, GROUP),
    ],
)
async def test_who_can_read_a_token(world: World, context: Object, mode: int, uid: int, gid: int) -> None:
    world.now = time.time()
    token = {"serviceAccountToken": {"path": "token"}}
    volume = {"name": "p", "projected": {"sources": [token]}}
    key, pod = world.pod([volume], securityContext=context)
    state = ((await world.volumes.mount(key, pod))["p"].path / "token").stat()
    assert (state.st_mode & 0o777, state.st_uid, state.st_gid) == (mode, uid, gid)


async def test_the_pods_own_fields(world: World) -> None:
    items: list[Object] = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "memory", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory"}},
    ]
    key, pod = world.pod([{"name": "d", "downwardAPI": {"items": items}}])
    folder = (await world.volumes.mount(key, pod))["d"].path
    assert ((folder / "labels").read_text(), (folder / "memory").read_text()) == ("", str(1 << 30))
    changed = {**pod, "metadata": {**pod["metadata"], "labels": {"a": "1"}}}
    await world.volumes.refresh(key, changed)
    assert (folder / "labels").read_text() == 'a="1"'


# Empty folders


async def test_empty_folders_live_as_long_as_the_pod(world: World) -> None:
    volumes: list[Object] = [
        {"name": "disk", "emptyDir": {"sizeLimit": "1Mi"}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"}},
    ]
    key, pod = world.pod(volumes)
    paths = await world.volumes.mount(key, pod)
    disk, memory = paths["disk"].path, paths["memory"].path
    for folder in (disk, memory):
        assert folder.stat().st_mode & 0o777 == 0o777
        (folder / "file").write_text("kept")
    assert await world.restarted().mount(key, pod) == paths
    assert (disk / "file").read_text() == (memory / "file").read_text() == "kept"
    with pytest.raises(OSError, match="No space left"):
        (memory / "big").write_bytes(bytes(3 << 20))
    assert world.volumes.empty_dirs(key) == [disk]
    assert marker_of(paths["memory"]).stat().st_size == 0 and paths["disk"].memory is None
    await world.volumes.unmount(key)
    await world.volumes.unmount(key)
    assert not disk.exists() and world.volumes.ids() == []
    assert world.volumes.empty_dirs(key) == []


def marker_of(volume: VolumePath) -> Path:
    """The file in place of which gVisor mounts a memory volume of its own."""
    assert volume.memory is not None
    return Path(volume.memory.source)


async def test_a_sandbox_of_an_older_agent_keeps_the_memory_volume_of_the_node(world: World) -> None:
    """It does not make the volume itself: containers that are restarted in it must find the one they had."""
    key, pod = world.pod([{"name": "m", "emptyDir": {"medium": "Memory"}}])
    marker_of((await world.volumes.mount(key, pod))["m"]).unlink()
    assert (await world.restarted().mount(key, pod))["m"].memory is None


async def test_memory_is_bounded_by_what_the_containers_may_use(world: World) -> None:
    container = {"name": "main", "image": "x", "resources": {"limits": {"memory": "4Mi"}}}
    key, pod = world.pod([{"name": "m", "emptyDir": {"medium": "Memory"}}], containers=[container])
    disk = os.statvfs((await world.volumes.mount(key, pod))["m"].path)
    assert disk.f_blocks * disk.f_frsize == 4 << 20


async def test_the_pods_group_owns_its_folders(world: World) -> None:
    volumes: list[Object] = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {"medium": "Memory"}}]
    key, pod = world.pod(volumes, securityContext={"fsGroup": GROUP})
    for path in (await world.volumes.mount(key, pod)).values():
        state = path.path.stat()
        assert (state.st_gid, state.st_mode & 0o7777) == (GROUP, 0o2777)


async def test_files_of_an_image_without_its_devices(world: World, tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs"
    rootfs.mkdir()
    (rootfs / "file").write_text("content")
    os.mknod(rootfs / "null", 0o666 | 0o020000, os.makedev(1, 3))
    image = Image("sha256:0", ("x:1",), ImageConfig(), rootfs, 0)

    async def fetch(_key: PodKey, _pod: Object, asked: Object) -> Image:
        if asked["image"] != "x:1":
            raise ImageUnavailable("ErrImagePull", "no such image")
        return image

    key, pod = world.pod([{"name": "i", "image": {"reference": "x:1"}}])
    volumes = PodVolumes(world.folder, world.lookup, time.time, node="here", image=fetch)
    path = (await volumes.mount(key, pod))["i"]
    assert path.read_only and (path.path / "file").read_text() == "content"
    with pytest.raises(PermissionError):
        (path.path / "null").read_bytes()
    with pytest.raises(OSError, match="Read-only"):
        (path.path / "new").touch()
    assert await volumes.mount(key, pod) == {"i": path}
    assert volumes.images_in_use() == {"sha256:0"}
    await volumes.unmount(key)
    assert (rootfs / "file").exists() and volumes.images_in_use() == set()
    other, other_pod = world.pod([{"name": "i", "image": {"reference": "y:1"}}])
    with pytest.raises(VolumeFailure, match='volume "i" : no such image'):
        await volumes.mount(other, other_pod)


async def test_devices_mean_nothing_in_empty_folders(world: World) -> None:
    key, pod = world.pod([{"name": "disk", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}])
    for path in (await world.volumes.mount(key, pod)).values():
        os.mknod(path.path / "null", 0o666 | 0o020000, os.makedev(1, 3))
        with pytest.raises(PermissionError):
            (path.path / "null").read_bytes()


# What is refused


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"hostPath": {"path": "/etc"}}, "hostPath volumes are not allowed for pods of tenants"),
        ({"emptyDir": {"medium": "HugePages"}}, "not supported"),
        ({"nfs": {"server": "192.0.2.1", "path": "/"}}, "volume type nfs is not supported"),
        ({"csi": {"driver": "d"}}, "volume type csi is not supported"),
        ({"image": {"reference": "x"}}, "image volumes are not supported"),
        ({"persistentVolumeClaim": {"claimName": "none"}}, 'persistentvolumeclaim "none" not found'),
        ({"ephemeral": {"volumeClaimTemplate": {}}}, "not found"),
        ({"projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}}, "not found"),
        ({"configMap": {"name": "m", "items": [{"key": "a", "path": "../../x"}]}}, "invalid path"),
    ],
)
async def test_what_a_tenants_pod_does_not_get(world: World, volume: Object, message: str) -> None:
    world.put("configmaps", "m", {"a": "1"})
    key, pod = world.pod([])
    asked = {**pod, "spec": {**pod["spec"], "volumes": [{"name": "v", **volume}]}}
    with pytest.raises(VolumeFailure, match=message):
        await world.volumes.mount(key, asked)
    await world.volumes.unmount(key)


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "A", "x" * 64])
async def test_names_that_are_none(world: World, name: str) -> None:
    key, pod = world.pod([])
    asked = {**pod, "spec": {**pod["spec"], "volumes": [{"name": name, "emptyDir": {}}]}}
    with pytest.raises(VolumeFailure, match="invalid volume name"):
        await world.volumes.mount(key, asked)


async def test_only_pods_of_ring0_on_the_home_plane_may_have_host_paths(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    key, pod = world.pod([])
    for kind, path, is_right in (
        ("", "file", True),
        ("File", "file", True),
        ("Directory", "file", False),
        ("Directory", "", True),
        ("Socket", "file", False),
        ("CharDevice", "file", False),
        ("DirectoryOrCreate", "made/deep", True),
        ("FileOrCreate", "made/file", True),
        ("", "missing", False),
        ("Directory", "../escape", False),
        ("Rubbish", "file", False),
    ):
        volume = {"name": "v", "hostPath": {"path": f"{tmp_path}/{path}", "type": kind}}
        asked = {**pod, "spec": {**pod["spec"], "volumes": [volume]}}
        ring0 = structs.replace(key, tenant=SYSTEM)
        if is_right:
            assert (await world.volumes.mount(ring0, asked))["v"].path == tmp_path / path
        else:
            with pytest.raises(VolumeFailure):
                await world.restarted().mount(structs.replace(ring0, uid=f"{kind}{path}"), asked)
        with pytest.raises(VolumeFailure, match="not allowed for pods of tenants"):
            await world.volumes.mount(structs.replace(ring0, plane=PlaneId("bolt")), asked)


# Faults


async def test_after_a_reboot_everything_is_mounted_again(world: World) -> None:
    world.put("secrets", "s", {"key": b64("hidden")})
    volumes: list[Object] = [
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    key, pod = world.pod(volumes, securityContext={"fsGroup": GROUP})
    paths = await world.volumes.mount(key, pod)
    for name in ("disk", "memory"):
        (paths[name].path / "file").write_text("x")
    for path in mount_calls.mounts_below(world.folder):
        mount_calls.unmount_all(path)
    assert await world.restarted().mount(key, pod) == paths
    assert (paths["s"].path / "key").read_text() == "hidden"
    assert (paths["disk"].path / "file").exists() and not (paths["memory"].path / "file").exists()
    for name in ("disk", "memory"):
        assert paths[name].path.stat().st_gid == GROUP
        assert not mount_calls.has_devices(paths[name].path)


async def test_what_was_looked_up_for_a_pod_is_forgotten_with_it(server: LocalServer, world: World) -> None:
    """A tenant that comes later under the same name must not get what this one had."""
    world.put("configmaps", "m", {"a": "old"})
    async with looking_up(server, seconds=1_000) as lookup:
        volumes = PodVolumes(world.folder, lookup, time.time, node="here")
        for expected in ("old", "new"):
            key, pod = world.pod([{"name": "m", "configMap": {"name": "m"}}])
            path = (await volumes.mount(key, pod))["m"].path
            assert (path / "a").read_text() == expected
            world.put("configmaps", "m", {"a": "new"})
            await volumes.unmount(key)


async def test_an_api_server_that_is_away(world: World) -> None:
    key, pod = world.pod([{"name": "m", "configMap": {"name": "m"}}])
    away = structs.replace(
        kubeconfig.load(world.server.admin_kubeconfig), server=f"https://127.0.0.1:{free_port()}"
    )
    pool = HttpPool(away)
    async with Planes() as planes:
        planes.join(HOME, pool)
        volumes = PodVolumes(world.folder, ObjectLookup(planes), lambda: world.now, node="here")
        with pytest.raises(VolumeFailure, match=r'MountVolume.SetUp failed for volume "m"'):
            await volumes.mount(key, pod)
        assert volumes.ids() == []
        await pool.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount_calls.mount("tmpfs", disk, "tmpfs", 0, "size=64k")
    yield disk
    for path in mount_calls.mounts_below(disk):
        mount_calls.unmount_all(path)


async def test_a_read_only_disk_is_reported(world: World, small_disk: Path) -> None:
    key, pod = world.pod([{"name": "e", "emptyDir": {}}])
    volumes = PodVolumes(small_disk / "volumes", world.lookup, time.time, node="here")
    _remount(small_disk, "ro")
    with pytest.raises(VolumeFailure, match=r"^failed to set up volumes: Read-only file system$"):
        await volumes.mount(key, pod)
    _remount(small_disk, "rw")
    assert await volumes.mount(key, pod), "when it is mended, all is well"
    await volumes.unmount(key)


async def test_a_full_disk_is_reported(world: World, small_disk: Path) -> None:
    key, pod = world.pod([{"name": "e", "emptyDir": {}}])
    volumes = PodVolumes(small_disk / "volumes", world.lookup, time.time, node="here")
    with pytest.raises(OSError, match="No space left"), (small_disk / "big").open("wb") as file:
        file.write(bytes(1 << 20))
    with pytest.raises(VolumeFailure, match=r"^failed to set up volumes: No space left on device$"):
        await volumes.mount(key, pod)
    (small_disk / "big").unlink()
    assert await volumes.mount(key, pod)
    await volumes.unmount(key)


def _remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)


class Killed(BaseException):
    pass


async def test_stopped_at_any_step_the_next_start_cleans(world: World) -> None:
    world.put("configmaps", "m", {"a": "1"})
    volumes: list[Object] = [
        {"name": "m", "configMap": {"name": "m"}},
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    key, pod = world.pod(volumes)
    for work in ("mount", "unmount"):
        steps = 0
        while await _stopped(world, key, pod, work, steps):
            after = world.restarted()
            if steps % 2 and work == "mount":  # The pod is still wanted: it goes on.
                paths = await after.mount(key, pod)
                assert (paths["m"].path / "a").read_text() == "1"
            for left in after.ids():
                assert left == key
                await after.unmount(left)
            assert world.mounts() == []
            assert list((world.folder / "pods").iterdir()) == [], (work, steps)
            steps += 1
        assert steps >= 3, work
        await world.restarted().unmount(key)


async def _stopped(world: World, key: PodKey, pod: Object, work: str, steps: int) -> bool:
    """Whether it was stopped after that many steps; else it is done."""
    left = [steps]

    def stop(_step: str) -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1

    if work == "unmount":
        await world.restarted().mount(key, pod)
    volumes = world.restarted(stop)
    try:
        await (volumes.mount(key, pod) if work == "mount" else volumes.unmount(key))
    except Killed:
        return True
    return False
