"""Projected files are memory of the node: a pod and a tenant have a limit for them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from alcove.agent.podkey import PodKey
from alcove.agent.volumes import volume_mounter
from alcove.agent.volumes import volumes as module
from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.volumes import PodVolumes
from alcove.api.objects import Object
from alcove.testing.lookups import in_default, looking_up, make_pod
from alcove.testing.server import LocalServer

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
SIZE = 10_000
MEMORY = 4 * 4_096 + 4 * 1_024
"""Two files of two pages, and a link to each."""
_NUMBERS = count()


class Node:
    def __init__(self, server: LocalServer, volumes: PodVolumes) -> None:
        self._server = server
        self.volumes = volumes

    def pod(self, tenant: str) -> tuple[PodKey, Object]:
        """A pod with a config map of SIZE bytes in two files."""
        return make_pod(self._server, tenant, {"volumes": [{"name": "m", "configMap": {"name": "m"}}]})

    def tenant(self) -> str:
        name = f"bounds-{next(_NUMBERS)}"
        self._server.make_tenant(name)
        data = dict.fromkeys("ab", "x" * (SIZE // 2))
        path = in_default(name, "configmaps")
        assert self._server.system.post(path, {"metadata": {"name": "m"}, "data": data}).status == 201
        return name


@pytest_asyncio.fixture
async def node(server: LocalServer, tmp_path: Path) -> AsyncIterator[Node]:
    async with looking_up(server) as lookup:
        made = PodVolumes(tmp_path / "volumes", lookup, lambda: 1_900_000_000.0, node="here")
        yield Node(server, made)
        for key in made.ids():
            await made.unmount(key)


async def test_a_pod_with_too_many_projected_files_does_not_start(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, pod = node.pod(node.tenant())
    monkeypatch.setattr(module, "FILES_BYTES_MAX", MEMORY - 1)
    with pytest.raises(VolumeFailure, match="of a pod may have"):
        await node.volumes.mount(key, pod)
    monkeypatch.setattr(module, "FILES_BYTES_MAX", MEMORY)
    await node.volumes.mount(key, pod)
    assert node.volumes.file_bytes(key) == MEMORY


async def test_projected_files_are_counted_after_a_restart_as_the_kernel_counts_them(
    node: Node, tmp_path: Path
) -> None:
    key, pod = node.pod(node.tenant())
    await node.volumes.mount(key, pod)
    restarted = PodVolumes(tmp_path / "volumes", node.volumes._lookup, lambda: 0.0, node="here")
    assert 0.75 * MEMORY < restarted.file_bytes(key) < 1.5 * MEMORY
    await node.volumes.unmount(key)
    assert node.volumes.file_bytes(key) == 0


async def test_a_tenants_projected_files_take_no_room_of_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TENANT_FILES_BYTES_MAX", 2 * MEMORY)
    hog, other = node.tenant(), node.tenant()
    first, *rest = [node.pod(hog) for _ in range(3)]
    await node.volumes.mount(*first)
    await node.volumes.mount(*first)
    await node.volumes.mount(*rest[0])
    with pytest.raises(VolumeFailure, match="pods of a tenant may have"):
        await node.volumes.mount(*rest[1])
    await node.volumes.mount(*node.pod(other))
    await node.volumes.unmount(first[0])
    await node.volumes.mount(*rest[1])


async def test_files_in_a_memory_volume_are_limited(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_mounter, "MEMORY_VOLUME_FILES_MAX", 100)
    tenant = node.tenant()
    volumes = [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    key, pod = make_pod(node._server, tenant, {"volumes": volumes})
    path = (await node.volumes.mount(key, pod))["v"].path
    with pytest.raises(OSError, match="No space left"):
        _touch(path, 101)


def _touch(path: Path, number: int) -> None:
    for each in range(number):
        (path / str(each)).touch()
