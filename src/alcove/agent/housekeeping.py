"""What a node does now and then: volumes brought up to date, images nobody needs removed, pods evicted when something
runs short."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from alcove.agent import pressure
from alcove.agent.images import garbage_collection
from alcove.agent.images.store import ImageStore
from alcove.agent.node import NodePressures
from alcove.agent.pods.node_services import NodeServices
from alcove.agent.pods.pod_workers import PodWorkers
from alcove.agent.pods.real_executor import RealPodExecutor
from alcove.agent.pods.worker import PodWorker
from alcove.agent.pressure import EvictionCandidate, FreeResources
from alcove.api.objects import Object

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
REFRESH_SECONDS = 60.0
COLLECT_SECONDS = 120.0
AFTER_EVICTION_SECONDS = 20.0
"""What a pod had must first be given back, before another goes for it."""
RELIEVED_SECONDS = 60.0
"""A shortage is told for this long after it ended: what comes and goes must not bring pods here."""
EVICTED = "Evicted"


class NodeHousekeeping:
    """`run` until cancelled."""

    def __init__(
        self,
        workers: PodWorkers,
        shop: NodeServices,
        images: ImageStore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers = workers
        self._shop = shop
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
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
                await self._refresh()
                if self._clock() - collected_at >= COLLECT_SECONDS:
                    collected_at = self._clock()
                    await self._collect()
            except OSError as error:
                log.warning("upkeep failed", extra={"error": str(error)})

    # Shortage

    async def _look(self) -> None:
        room = pressure.look(self._shop.folders.data)
        now = self._clock()
        for name, lacks in _lacking(room).items():
            if lacks:
                self._short_until[name] = now + RELIEVED_SECONDS
        await self._evict_overflowing()
        if now >= self._evict_after:
            if room.lacks_disk:
                await self._collect()
                await self._evict_for("ephemeral-storage", await self._by_disk())
            elif room.lacks_memory or room.lacks_processes:
                await self._evict_for("memory", self._by_memory())

    async def _evict_for(self, resource: str, candidates: list[EvictionCandidate]) -> None:
        chosen = pressure.choose(candidates, resource)
        worker = self._workers.find(chosen.key.object_key) if chosen is not None else None
        if chosen is None or worker is None:
            return
        message = f"The node was low on resource: {resource}. "
        log.warning("evicting", extra={"pod": str(chosen.key), "resource": resource})
        self._evict(worker, message)
        self._evict_after = self._clock() + AFTER_EVICTION_SECONDS

    def _evict(self, worker: PodWorker, why: str) -> None:
        self._shop.note(worker.key, "Warning", EVICTED, why)
        worker.fail(EVICTED, why, 0.0)

    def _running(self) -> list[PodWorker]:
        return [each for each in self._workers if each.view.is_set_up and each.view.end is None]

    def _by_memory(self) -> list[EvictionCandidate]:
        found = []
        for worker in self._running():
            used = self._shop.cgroups.usage(f"{self._shop.group}/{worker.key.directory_name}")
            found.append(EvictionCandidate(worker.key, worker.pod["spec"], used.working_set_bytes))
        return found

    async def _by_disk(self) -> list[EvictionCandidate]:
        workers = self._running()
        empties = await self._shop.volumes.usages([each.key for each in workers])
        return [
            EvictionCandidate(
                each.key,
                each.pod["spec"],
                sum(empties.get(each.key, {}).values()) + sum((await self._written(each)).values()),
            )
            for each in workers
        ]

    async def _evict_overflowing(self) -> None:
        workers = [each for each in self._running() if pressure.is_measured(each.pod["spec"])]
        if not workers:
            return
        empties = await self._shop.volumes.usages([each.key for each in workers])
        for each in workers:
            spec: Object = each.pod["spec"]
            written = (
                await self._written(each) if any(map(pressure.limited, spec.get("containers") or ())) else {}
            )
            if why := pressure.over_limit(spec, empties.get(each.key, {}), written):
                self._evict(each, why)

    async def _written(self, worker: PodWorker) -> dict[str, int]:
        """Bytes in containers' own layers, by container."""
        found: dict[str, int] = {}
        for name, observed in worker.view.containers.items():
            if observed.current is not None:
                found[name] = await asyncio.to_thread(
                    self._shop.snapshots.written_bytes, observed.current.status.id
                )
        return found

    # Freshness

    async def _refresh(self) -> None:
        now = self._clock()
        known, self._refreshed = self._refreshed, {}
        for worker in self._running():
            place, told = worker.key.directory_name, _told(worker.pod)
            before = known.get(place)
            if before is None:
                before = (now, told)  # It was just mounted.
            elif now - before[0] >= REFRESH_SECONDS or before[1] != told:
                await worker.executor.refresh(worker.pod)
                before = (now, told)
            self._refreshed[place] = before

    async def _collect(self) -> None:
        in_use = {
            digest
            for each in self._workers
            if isinstance(each.executor, RealPodExecutor)
            for digest in each.executor.images
        }
        in_use |= {self._shop.pause.digest, *self._shop.volumes.images_in_use()}
        removed = await garbage_collection.collect(self._images, in_use)
        if removed:
            log.info("images removed", extra={"count": len(removed)})


def _lacking(room: FreeResources) -> dict[str, bool]:
    return {"memory": room.lacks_memory, "disk": room.lacks_disk, "processes": room.lacks_processes}


def _told(pod: Object) -> object:
    """What of a pod its volumes may show."""
    metadata = pod["metadata"]
    return (metadata.get("labels"), metadata.get("annotations"))
