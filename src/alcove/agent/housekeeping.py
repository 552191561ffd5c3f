"""Periodic work of a node: refreshes volumes, removes unused images, and evicts pods under resource
pressure."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection

from msgspec import Struct

from alcove.agent import pressure
from alcove.agent.images.store import ImageStore
from alcove.agent.node import NodePressures
from alcove.agent.pods.node_services import NodeServices
from alcove.agent.pods.pod_workers import PodWorkers
from alcove.agent.pods.real_executor import RealPodExecutor
from alcove.agent.pods.worker import PodWorker
from alcove.agent.pressure import EvictionCandidate, FreeResources
from alcove.api.objects import Object

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
REFRESH_SECONDS = 60.0
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers = workers
        self._services = services
        self._images = images
        self._clock = clock
        self._short_until = {"memory": 0.0, "disk": 0.0, "processes": 0.0}
        self._evict_after = 0.0
        self._refreshed: dict[str, tuple[float, object]] = {}

    def pressures(self) -> NodePressures:
        now = self._clock()
        short = {name for name, until in self._short_until.items() if now < until}
        return NodePressures("memory" in short, "disk" in short, "processes" in short)

    async def run(self) -> None:
        collected_at = self._clock()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self._check_pressure()
                await self._refresh()
                if self._clock() - collected_at >= COLLECT_SECONDS:
                    collected_at = self._clock()
                    await self._collect()
            except OSError as error:
                log.warning("housekeeping failed; retrying", extra={"error": str(error)})

    # Pressure

    async def _check_pressure(self) -> None:
        free = pressure.measure(self._services.folders.data)
        now = self._clock()
        for name, lacks in _lacking(free).items():
            if lacks:
                self._short_until[name] = now + RELIEVED_SECONDS
        await self._evict_overflowing()
        if now >= self._evict_after:
            if free.lacks_disk:
                await self._collect()
                await self._evict_for("ephemeral-storage", await self._by_disk())
            elif free.lacks_memory or free.lacks_processes:
                await self._evict_for("memory", self._by_memory())

    async def _evict_for(self, resource: str, candidates: list[EvictionCandidate]) -> None:
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

    def _by_memory(self) -> list[EvictionCandidate]:
        candidates = []
        for worker in self._running():
            used = self._services.cgroups.usage(f"{self._services.group}/{worker.key.directory_name}")
            candidates.append(EvictionCandidate(worker.key, worker.pod["spec"], used.working_set_bytes))
        return candidates

    async def _by_disk(self) -> list[EvictionCandidate]:
        workers = self._running()
        volume_usages = await self._services.volumes.usages([each.key for each in workers])
        return [
            EvictionCandidate(
                each.key,
                each.pod["spec"],
                sum(volume_usages.get(each.key, {}).values()) + sum((await self._written(each)).values()),
            )
            for each in workers
        ]

    async def _evict_overflowing(self) -> None:
        workers = [each for each in self._running() if pressure.is_measured(each.pod["spec"])]
        if not workers:
            return
        volume_usages = await self._services.volumes.usages([each.key for each in workers])
        for each in workers:
            spec: Object = each.pod["spec"]
            written = (
                await self._written(each) if any(map(pressure.limited, spec.get("containers") or ())) else {}
            )
            if message := pressure.over_limit(spec, volume_usages.get(each.key, {}), written):
                self._evict(each, message)

    async def _written(self, worker: PodWorker) -> dict[str, int]:
        """Bytes in containers' writable layers, by container."""
        written: dict[str, int] = {}
        for name, observed in worker.view.containers.items():
            if observed.current is not None:
                written[name] = await asyncio.to_thread(
                    self._services.snapshots.written_bytes, observed.current.status.id
                )
        return written

    # Volumes and images

    async def _refresh(self) -> None:
        now = self._clock()
        previous, self._refreshed = self._refreshed, {}
        for worker in self._running():
            name, metadata = worker.key.directory_name, _volume_metadata(worker.pod)
            before = previous.get(name)
            if before is None:
                before = (now, metadata)  # The volumes were just mounted.
            elif now - before[0] >= REFRESH_SECONDS or before[1] != metadata:
                await worker.executor.refresh(worker.pod)
                before = (now, metadata)
            self._refreshed[name] = before

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
    return {"memory": free.lacks_memory, "disk": free.lacks_disk, "processes": free.lacks_processes}


def _volume_metadata(pod: Object) -> object:
    """The metadata that downward API volumes may show."""
    metadata = pod["metadata"]
    return (metadata.get("labels"), metadata.get("annotations"))


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
