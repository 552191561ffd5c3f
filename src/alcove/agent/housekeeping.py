"""Periodic work of a node: refreshes volumes, removes unused images, and evicts pods under resource
pressure."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection

from msgspec import Struct

from alcove.agent import pressure
from alcove.agent.cgroups import CgroupUsage
from alcove.agent.images.store import ImageStore
from alcove.agent.node import NodePressures
from alcove.agent.pod_storage import PodStorageMeter
from alcove.agent.pods.node_services import NodeServices
from alcove.agent.pods.pod_workers import PodWorkers
from alcove.agent.pods.real_executor import RealPodExecutor
from alcove.agent.pods.worker import PodWorker
from alcove.agent.pressure import EvictionCandidate, FreeResources, StorageBounds
from alcove.agent.volumes import downward

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""How often the node's free resources are checked: a pod can fill the last gigabytes of a disk in seconds."""
MEASURE_SECONDS = 10.0
"""How often the storage of each pod is measured."""
REFRESH_SECONDS = 60.0
"""How often the volumes of each pod are refreshed. Those of a pod whose metadata has changed are refreshed at the next
check."""
COLLECT_SECONDS = 120.0
AFTER_EVICTION_SECONDS = 20.0
"""Time until the next eviction: the evicted pod's resources must be released first."""
RELIEVED_SECONDS = 60.0
"""A pressure condition stays this long after the pressure ended, so that it does not flap."""
EVICTED = "Evicted"
HIGH_PERCENT, LOW_PERCENT = 85, 80
"""Images are removed when disk usage reaches HIGH_PERCENT, until it is LOW_PERCENT."""


class NodeHousekeeping:
    """`run` returns only when cancelled."""

    def __init__(
        self,
        workers: PodWorkers,
        services: NodeServices,
        images: ImageStore,
        storage: PodStorageMeter,
        bounds: StorageBounds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers = workers
        self._services = services
        self._images = images
        self._storage = storage
        self._bounds = bounds
        self._clock = clock
        self._short_until = {"memory": 0.0, "disk": 0.0, "processes": 0.0}
        self._evict_after = 0.0
        self._refreshed: dict[str, float] = {}
        """When the volumes of each pod were mounted or refreshed; monotonic clock."""

    def pressures(self) -> NodePressures:
        now = self._clock()
        short = {name for name, until in self._short_until.items() if now < until}
        return NodePressures("memory" in short, "disk" in short, "processes" in short)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repeat(CHECK_SECONDS, self.check_pressure))
            tasks.create_task(self._repeat(MEASURE_SECONDS, self.evict_overflowing))
            tasks.create_task(self._repeat(CHECK_SECONDS, self.refresh_volumes))
            tasks.create_task(self._repeat(COLLECT_SECONDS, self._collect))

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Works at most half of the time: measuring the storage of many files takes long."""
        took = 0.0
        while True:
            await asyncio.sleep(max(seconds, took))
            began = self._clock()
            try:
                await work()
            except OSError as error:
                log.warning("housekeeping failed; retrying", extra={"error": str(error)})
            took = self._clock() - began

    # Pressure

    async def check_pressure(self) -> None:
        """Evicts a pod if the node lacks a resource."""
        free = pressure.measure(self._services.folders.data)
        now = self._clock()
        for name, lacks in _lacking(free).items():
            if lacks:
                self._short_until[name] = now + RELIEVED_SECONDS
        resource = free.lacking
        if not resource or now < self._evict_after:
            return
        if resource in (pressure.STORAGE, pressure.INODES):
            await self._collect()
        self._evict_for(resource, await self._candidates(resource))

    def _evict_for(self, resource: str, candidates: list[EvictionCandidate]) -> None:
        chosen = pressure.choose(candidates, resource)
        worker = self._workers.find(chosen.key.object_key) if chosen is not None else None
        if chosen is None or worker is None:
            return
        message = f"The node was low on resource: {resource}. "
        log.warning("evicting pod", extra={"pod": str(chosen.key), "resource": resource})
        self._evict(worker, message)
        self._evict_after = self._clock() + AFTER_EVICTION_SECONDS

    def _evict(self, worker: PodWorker, message: str) -> None:
        self._services.note(worker.key, "Warning", EVICTED, message)
        worker.fail(EVICTED, message, 0.0)

    def _running(self) -> list[PodWorker]:
        return [each for each in self._workers if each.view.is_set_up and each.view.end is None]

    async def _candidates(self, resource: str) -> list[EvictionCandidate]:
        workers = self._running()
        match resource:
            case pressure.STORAGE | pressure.INODES:
                storage = await self._storage.measure([each.key for each in workers])
                totals = {key: each.total for key, each in storage.items()}
                used = {
                    key: each.bytes if resource == pressure.STORAGE else each.files
                    for key, each in totals.items()
                }
            case pressure.MEMORY:
                files = self._services.volumes.file_bytes
                used = {each.key: self._usage(each).working_set_bytes + files(each.key) for each in workers}
            case _:
                used = {each.key: self._usage(each).processes for each in workers}
        return [EvictionCandidate(each.key, each.pod["spec"], used.get(each.key, 0)) for each in workers]

    def _usage(self, worker: PodWorker) -> CgroupUsage:
        return self._services.cgroups.usage(self._services.pod_group(worker.key))

    async def evict_overflowing(self) -> None:
        """Evicts every pod that uses more storage than it may."""
        bounds = self._bounds.on(pressure.measure(self._services.folders.data))
        workers = self._running()
        storage = await self._storage.measure([each.key for each in workers])
        for each in workers:
            message = pressure.over_limit(each.pod["spec"], storage[each.key], bounds)
            if message and each.view.end is None:
                log.warning("evicting pod", extra={"pod": str(each.key), "reason": message})
                self._evict(each, message)

    # Volumes and images

    async def refresh_volumes(self) -> None:
        """Refreshes volumes that are due, or that may show metadata which the pod no longer has."""
        now = self._clock()
        previous, self._refreshed = self._refreshed, {}
        for worker in self._running():
            name, pod = worker.key.directory_name, worker.pod
            refreshed_at, metadata = previous.get(name, now), downward.metadata(pod)
            if now - refreshed_at >= REFRESH_SECONDS or worker.volume_metadata != metadata:
                await worker.executor.refresh(pod)
                worker.volume_metadata, refreshed_at = metadata, now
            self._refreshed[name] = refreshed_at

    async def _collect(self) -> None:
        in_use = {
            digest
            for each in self._workers
            if isinstance(each.executor, RealPodExecutor)
            for digest in each.executor.images
        }
        in_use |= {self._services.pause.digest, *self._services.volumes.images_in_use()}
        removed = await collect_images(self._images, in_use)
        if removed:
            log.info("images removed", extra={"count": len(removed)})


def _lacking(free: FreeResources) -> dict[str, bool]:
    lacks_disk = free.lacks_disk or free.lacks_inodes
    return {"memory": free.lacks_memory, "disk": lacks_disk, "processes": free.lacks_processes}


class DiskUsage(Struct, frozen=True):
    size_bytes: int
    used_bytes: int


def images_bytes_max(
    disk: DiskUsage, images_bytes: int, high: int = HIGH_PERCENT, low: int = LOW_PERCENT
) -> int:
    """How much all images together may use: what they use now while the disk is below `high` percent,
    otherwise as much as brings it down to `low` percent."""
    if disk.used_bytes * 100 < disk.size_bytes * high:
        return images_bytes
    return max(0, images_bytes - (disk.used_bytes - disk.size_bytes * low // 100))


async def collect_images(store: ImageStore, in_use: Collection[str]) -> list[str]:
    """Removes unnamed images, and others as needed to free disk space. Returns the removed digests."""
    images_bytes = sum(image.size_bytes for image in store.all())
    return await store.collect(in_use, images_bytes_max(_disk_usage(store), images_bytes))


def _disk_usage(store: ImageStore) -> DiskUsage:
    stat = os.statvfs(store.directory)
    size = stat.f_blocks * stat.f_frsize
    return DiskUsage(size, size - stat.f_bavail * stat.f_frsize)
