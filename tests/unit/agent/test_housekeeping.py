"""A node under resource pressure: it sets a condition, evicts pods one at a time, and removes images."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from alcove.agent import pressure
from alcove.agent.cgroups import CgroupUsage
from alcove.agent.file_trees import TreeUsage
from alcove.agent.housekeeping import (
    AFTER_EVICTION_SECONDS,
    REFRESH_SECONDS,
    RELIEVED_SECONDS,
    DiskUsage,
    NodeHousekeeping,
    collect_images,
    images_bytes_max,
)
from alcove.agent.images.store import ImageStore
from alcove.agent.node import NodePressures
from alcove.agent.pod_storage import PodStorage
from alcove.agent.podkey import PodKey
from alcove.agent.pods.view import PodRuntimeView, PodTermination, TerminationCause
from alcove.agent.pressure import POD_FILES_MAX, POD_STORAGE_BYTES_MAX, FreeResources, StorageBounds
from alcove.agent.volumes import downward
from alcove.agent.volumes.downward import DownwardMetadata
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, ObjectKey

FINE = FreeResources(1 << 33, 1 << 36, 1 << 37, 30_000, 32_768)
NO_MEMORY = FreeResources(1 << 20, 1 << 36, 1 << 37, 30_000, 32_768)


class Worker:
    def __init__(self, name: str) -> None:
        self.key = PodKey(HOME, TenantId("t"), "n", name, f"uid-{name}")
        self.pod: Object = {"metadata": {"name": name}, "spec": {"containers": [{"name": "a"}]}}
        self.view = PodRuntimeView(is_set_up=True)
        self.volume_metadata = DownwardMetadata()
        self.refreshed: list[Object] = []
        self.executor = SimpleNamespace(refresh=self._refresh)

    async def _refresh(self, pod: Object) -> None:
        self.refreshed.append(pod)

    def fail(self, reason: str, message: str, grace_seconds: float) -> None:
        self.view.end = PodTermination(TerminationCause.FAILED, grace_seconds, reason, message)


class Workers(list[Worker]):
    def find(self, key: ObjectKey) -> Worker | None:
        return next((each for each in self if each.key.object_key == key), None)


class Node:
    def __init__(self, used: dict[str, int]) -> None:
        self.now = 1_000.0
        self.events: list[tuple[str, str]] = []
        self.workers = Workers(Worker(name) for name in used)
        usage = {
            worker.key.directory_name: CgroupUsage(working_set_bytes=used[worker.key.name])
            for worker in self.workers
        }
        services = SimpleNamespace(
            folders=SimpleNamespace(data=Path("/")),
            pod_group=lambda key: f"/g/{key.directory_name}",
            volumes=SimpleNamespace(file_bytes=lambda _key: 0),
            cgroups=SimpleNamespace(usage=lambda group: usage[group.removeprefix("/g/")]),
            note=lambda key, _type, reason, _message: self.events.append((key.name, reason)),
        )
        self.storage: dict[PodKey, PodStorage] = {worker.key: PodStorage() for worker in self.workers}
        self.housekeeping = NodeHousekeeping(
            self.workers,  # type: ignore[arg-type]
            services,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            SimpleNamespace(measure=self._measure),  # type: ignore[arg-type]
            StorageBounds(),
            clock=lambda: self.now,
        )

    async def _measure(self, keys: list[PodKey]) -> dict[PodKey, PodStorage]:
        return {key: self.storage[key] for key in keys}

    def ended(self) -> list[str]:
        return [worker.key.name for worker in self.workers if worker.view.end is not None]


async def test_one_pod_at_a_time_is_evicted_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node({"small": 10 << 20, "big": 50 << 20})
    monkeypatch.setattr(pressure, "measure", lambda _data: NO_MEMORY)
    await node.housekeeping.check_pressure()
    assert node.ended() == ["big"] and node.events == [("big", "Evicted")]
    assert node.housekeeping.pressures() == NodePressures(memory=True)
    await node.housekeeping.check_pressure()
    assert node.ended() == ["big"], "what it had must first be given back"
    node.now += AFTER_EVICTION_SECONDS
    await node.housekeeping.check_pressure()
    assert node.ended() == ["small", "big"]


@pytest.mark.parametrize(
    "usage", [TreeUsage(POD_STORAGE_BYTES_MAX + 1), TreeUsage(0, POD_FILES_MAX + 1), TreeUsage(is_cut=True)]
)
async def test_a_pod_with_more_than_its_part_of_the_disk_is_evicted_before_there_is_pressure(
    monkeypatch: pytest.MonkeyPatch, usage: TreeUsage
) -> None:
    node = Node({"small": 0, "big": 0})
    monkeypatch.setattr(pressure, "measure", lambda _data: FINE)
    node.storage[node.workers[1].key] = PodStorage({"v": usage})
    await node.housekeeping.evict_overflowing()
    assert node.ended() == ["big"] and node.events == [("big", "Evicted")]


async def test_a_pressure_condition_stays_for_a_while_after_the_pressure_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node({})
    monkeypatch.setattr(pressure, "measure", lambda _data: NO_MEMORY)
    await node.housekeeping.check_pressure()
    monkeypatch.setattr(pressure, "measure", lambda _data: FINE)
    node.now += RELIEVED_SECONDS / 2
    await node.housekeeping.check_pressure()
    assert node.housekeeping.pressures().memory
    node.now += RELIEVED_SECONDS
    await node.housekeeping.check_pressure()
    assert node.housekeeping.pressures() == NodePressures()


async def test_no_pod_is_evicted_without_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node({"a": 1 << 34})
    monkeypatch.setattr(pressure, "measure", lambda _data: FINE)
    await node.housekeeping.check_pressure()
    assert not node.ended() and node.housekeeping.pressures() == NodePressures()


async def test_a_label_that_changes_right_after_a_pods_start_is_in_its_volume_at_the_next_check() -> None:
    """It was missed until the volume was refreshed anyway, a minute later."""
    node = Node({"a": 0, "other": 0})
    worker, other = node.workers
    worker.pod["spec"]["volumes"] = [{"name": "v", "downwardAPI": {"items": []}}]
    worker.volume_metadata = downward.metadata(worker.pod)
    for each in node.workers:
        each.pod = {**each.pod, "metadata": {**each.pod["metadata"], "labels": {"key": "new"}}}
    await node.housekeeping.refresh_volumes()
    await node.housekeeping.refresh_volumes()
    assert worker.refreshed == [worker.pod], "once"
    assert not other.refreshed, "no volume of it shows labels"


async def test_volumes_are_refreshed_each_minute() -> None:
    node = Node({"a": 0})
    for seconds, times in ((0.0, 0), (REFRESH_SECONDS - 1, 0), (1.0, 1), (1.0, 1), (REFRESH_SECONDS, 2)):
        node.now += seconds
        await node.housekeeping.refresh_volumes()
        assert len(node.workers[0].refreshed) == times


@pytest.mark.parametrize(
    ("used", "images", "expected"),
    [(0, 0, 0), (84, 50, 50), (85, 50, 45), (100, 50, 30), (95, 5, 0), (90, 0, 0)],
)
def test_how_much_disk_images_may_use(used: int, images: int, expected: int) -> None:
    assert images_bytes_max(DiskUsage(100, used), images) == expected


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("busybox") is None, reason="needs root and busybox")
async def test_no_image_is_removed_while_the_disk_has_space(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    image = store.add_builtin()
    disk = os.statvfs(tmp_path)
    is_full = disk.f_bavail * 100 < disk.f_blocks * 15
    assert await collect_images(store, [image.digest] if is_full else []) == []
    assert store.all() == [image]
