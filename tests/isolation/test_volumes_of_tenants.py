"""Pods of two tenants that run on one node: neither reaches the other's files, by path, by link or by device."""

import asyncio
import base64
import os
import time
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from alcove.agent.cgroups import Cgroups
from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId
from alcove.agent.runtime.config import BindMount, IdMapping
from alcove.agent.runtime.oci import OciRuntime
from alcove.agent.volumes import PodVolumes, VolumeFailure, VolumePath
from alcove.agent.volumes.local import LocalVolume
from alcove.agent.volumes.mounts import container_mounts
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.testing.containers import ContainerLab, working_flavor
from alcove.testing.lookups import in_default, looking_up, make_pod
from alcove.testing.needs import loop_devices
from alcove.testing.server import LocalServer

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(loop_devices()), reason=loop_devices())]
SECRET = "hunter2-canary"
_NUMBERS = count(1)
IN_GVISOR_SLOWLY = pytest.mark.parametrize(
    "node", ["crun", pytest.param("gvisor", marks=pytest.mark.slow)], indirect=True
)
"""For what the node does by itself, whatever the runtime is."""


class Pod:
    """A pod of a tenant with a volume of each kind, each at `/<name>` in its container."""

    def __init__(self, node: "Node", tenant: str) -> None:
        self.node, self.tenant = node, tenant
        secret = {"metadata": {"name": "s"}, "data": {"key": base64.b64encode(SECRET.encode()).decode()}}
        assert node.server.system.post(in_default(tenant, "secrets"), secret).status == 201
        config = {"metadata": {"name": "m"}, "data": {"key": "first"}}
        assert node.server.system.post(in_default(tenant, "configmaps"), config).status == 201
        volumes = [
            {"name": "empty", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "secret", "secret": {"secretName": "s"}},
            {"name": "config", "configMap": {"name": "m"}},
        ]
        self.key, self.pod = make_pod(node.server, tenant, {"volumes": volumes})
        self.paths: dict[str, VolumePath] = {}

    @property
    def local(self) -> LocalVolume:
        return LocalVolume(TenantId(self.tenant), "pv", "same-uid", 8 << 20)

    async def mount(self) -> None:
        self.paths = dict(await self.node.volumes.mount(self.key, self.pod))
        data = self.node.volumes.local.mount(self.local)
        self.paths["local"] = VolumePath(data, False, self.paths["empty"].parts)

    def mounts(self, **parts: str) -> list[BindMount]:
        mounts = [
            {"name": name, "mountPath": f"/{name}", **({"subPath": parts[name]} if name in parts else {})}
            for name in self.paths
        ]
        return container_mounts(self.pod, {"name": "main", "volumeMounts": mounts}, self.paths)

    async def run(self, script: str, mapping: IdMapping | None = None) -> list[str]:
        """The output (both streams) of a shell in a container of the pod, with its exit code last."""
        lab = self.node.lab
        id = await self.start(script, mapping)
        async with asyncio.timeout(100):
            status = await lab.runtime.wait(id)
        return [*lab.lines(id), *lab.lines(id, "stderr"), str(status.exit_code)]

    async def start(self, script: str, mapping: IdMapping | None = None) -> ContainerId:
        sandbox = await self.node.lab.sandbox(mapping=mapping)
        container: Object = {"command": ["sh", "-c", script]}
        return await self.node.lab.container(sandbox, container, mounts=self.mounts(), mapping=mapping)


class Node:
    def __init__(self, server: LocalServer, lab: ContainerLab, volumes: PodVolumes) -> None:
        self.server, self.lab, self.volumes = server, lab, volumes

    async def pod(self) -> Pod:
        tenant = f"files-{next(_NUMBERS)}"
        self.server.make_tenant(tenant)
        made = Pod(self, tenant)
        await made.mount()
        return made


def _passable(name: str) -> Path:
    """For other users than root, as root of a pod may be one on the node."""
    Path(name).chmod(0o711)
    return Path(name)


@pytest_asyncio.fixture(params=["crun", "gvisor"])
async def node(request: pytest.FixtureRequest, server: LocalServer) -> AsyncIterator[Node]:
    flavor, why = await working_flavor(request.param)
    if flavor is None:
        pytest.skip(why)
    with TemporaryDirectory(prefix="alcove-files-") as name:
        folder = _passable(name)
        runtime = OciRuntime(flavor, folder / "run", Cgroups.of_machine())
        async with looking_up(server) as lookup:
            volumes = PodVolumes(folder / "volumes", lookup, time.time, node="here")
            async with ContainerLab(runtime, folder) as lab:
                yield Node(server, lab, volumes)
            for key in volumes.ids():
                await volumes.unmount(key)
            for local in volumes.local.all():
                volumes.local.unmount(local.id)


async def test_what_a_pod_has_is_there_and_only_what_it_may_is_writable(node: Node) -> None:
    pod = await node.pod()
    output = await pod.run(
        "cat /secret/key; echo; cat /config/key; echo; "
        "for v in empty memory local; do echo x >/$v/file && cat /$v/file; done; "
        "for v in secret config; do (echo x >/$v/file) 2>/dev/null || echo refused; "
        "rm /$v/key 2>/dev/null || echo refused; ln -sfn / /$v/..data 2>/dev/null || echo refused; done"
    )
    assert output == [SECRET, "first", "x", "x", "x", *(["refused"] * 6), "0"]
    assert (pod.paths["local"].path / "file").read_text() == "x\n"


async def test_nothing_of_anothers_by_path_or_link(node: Node) -> None:
    victim, attacker = await node.pod(), await node.pod()
    for name in ("empty", "memory", "local"):
        (victim.paths[name].path / "file").write_text(SECRET)
    targets = [f"{path.path}/{'key' if name == 'secret' else 'file'}" for name, path in victim.paths.items()]
    script = "".join(
        f"cat {target}; cat /proc/1/root{target}; cat /empty/../../../..{target}; "
        f"ln -s {target} /empty/l{number}; cat /empty/l{number}; ln -s {target} /local/l{number}; cat /local/l{number}; "
        f"ln {target} /empty/h{number}; "
        for number, target in enumerate(targets)
    )
    output = await attacker.run(
        f"({script}) 2>/dev/null; rm /secret/key 2>/dev/null; grep -rl {SECRET} /empty /local /memory /proc/1/root/tmp 2>/dev/null; true"
    )
    assert SECRET not in "".join(output), output


@IN_GVISOR_SLOWLY
async def test_links_in_a_volume_are_not_followed_on_the_node(node: Node) -> None:
    victim, attacker = await node.pod(), await node.pod()
    (victim.paths["local"].path / "file").write_text(SECRET)
    folder = victim.paths["local"].path
    assert (await attacker.run(f"ln -s {folder} /empty/out; ln -s / /local/out; ln -s ../.. /local/up"))[
        -1
    ] == "0"
    for parts in ({"empty": "out"}, {"empty": "out/file"}, {"local": "out/etc"}, {"local": "up"}):
        with pytest.raises(VolumeFailure, match="escapes the volume"):
            attacker.mounts(**parts)


async def test_device_files_do_not_reach_another_tenants_disk(node: Node) -> None:
    victim, attacker = await node.pod(), await node.pod()
    (victim.paths["local"].path / "file").write_text(SECRET)
    os.sync()
    device = victim.paths["local"].path.stat().st_dev
    major, minor = os.major(device), os.minor(device)
    for name in ("empty", "local"):  # Even if the node itself had put one there.
        os.mknod(attacker.paths[name].path / "planted", 0o666 | 0o060000, device)
    output = await attacker.run(
        f"for v in empty local memory tmp dev; do mknod /$v/made b {major} {minor} 2>/dev/null; "
        f"dd if=/$v/made bs=1M count=8 2>/dev/null | grep -c {SECRET}; "
        f"dd if=/$v/planted bs=1M count=8 2>/dev/null | grep -c {SECRET}; done; ls /dev | grep -c loop"
    )
    assert set(output[:-1]) == {"0"}, output


async def test_changes_of_objects_reach_a_running_container(node: Node) -> None:
    pod = await node.pod()
    id = await pod.start("while sleep 0.1; do cat /config/key; echo; done")
    await _until(lambda: "first" in node.lab.lines(id))
    change = {"data": {"key": "second"}}
    assert node.server.system.patch(in_default(pod.tenant, "configmaps/m"), change).status == 200
    await node.volumes.refresh(pod.key, pod.pod)
    await _until(lambda: "second" in node.lab.lines(id))


@pytest.mark.parametrize("node", ["crun"], indirect=True)
async def test_root_of_a_pod_with_a_user_namespace_owns_its_volumes(node: Node) -> None:
    """gVisor has users of its own making."""
    pod = await node.pod()
    mapping = IdMapping(300_000)
    output = await pod.run(
        "for v in empty memory local; do echo x >/$v/file && chown 7 /$v/file && stat -c %u /$v/file; done; "
        "stat -Lc %u /secret/key; cat /secret/key; echo",
        mapping,
    )
    assert output == ["7", "7", "7", "0", SECRET, "0"]
    for name in ("empty", "memory", "local"):
        assert (pod.paths[name].path / "file").stat().st_uid == 7, (
            "the next pod may have other ids on the node"
        )


@IN_GVISOR_SLOWLY
async def test_a_full_volume_does_not_affect_other_volumes(node: Node) -> None:
    full, other = await node.pod(), await node.pod()
    output = await full.run(
        "dd if=/dev/zero of=/local/big bs=1M count=20 2>&1 | grep -o 'No space left on device'"
    )
    assert "No space left on device" in output
    assert (await other.run("dd if=/dev/zero of=/local/big bs=1M count=4 2>/dev/null && echo ok"))[0] == "ok"


async def _until(check: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if check():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("not so within 60 s")


def test_keys_that_differ_anywhere_have_folders_of_their_own() -> None:
    from alcove.agent.volumes.volumes import _id

    fields = ("system", "acme", "default", "web", "u1")
    keys = [PodKey(HOME, TenantId("acme"), "default", "web", "u1")]
    for number in range(5):
        changed = [f"{field}x" if each == number else field for each, field in enumerate(fields)]
        keys.append(PodKey(*changed))  # type: ignore[arg-type]
    keys.append(PodKey(HOME, TenantId("../../acme"), "default", "web", "u1"))
    ids = {_id(key) for key in keys}
    assert len(ids) == len(keys)
    assert all(id.isalnum() for id in ids)
