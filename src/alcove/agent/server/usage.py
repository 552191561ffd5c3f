"""CPU and memory usage, measured on request only.

CPU usage is a rate, so it takes two snapshots. The first is the one of the previous request if that is recent
enough; otherwise one is taken now, WINDOW_SECONDS_MIN before the second.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from alcove.agent.cgroups import CgroupUsage
from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerRuntime, Isolation, RuntimeFailure
from alcove.agent.server.running_containers import PodHandle, RunningContainers
from alcove.api.node_api import ContainerUsage, NodeSummary, PodUsage, ResourceUsage
from alcove.client.keys import HOME, PlaneId

WINDOW_SECONDS_MIN = 1.0
WINDOW_SECONDS_MAX = 120.0
CONCURRENT_MAX = 8
_NANOSECONDS = 1_000_000_000


_ContainerKey = tuple[PodKey, str, ContainerId]


class UsageSnapshot(Struct, frozen=True):
    """The counters of the node and its containers at one moment."""

    at: float
    node: CgroupUsage
    containers: Mapping[_ContainerKey, CgroupUsage]


class UsageMeter:
    def __init__(
        self,
        pods: RunningContainers,
        node: Callable[[], CgroupUsage] = lambda: machine(),
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pods = pods
        self._node = node
        self._clock = clock
        self._sleep = sleep
        self._before: UsageSnapshot | None = None
        self._now: UsageSnapshot | None = None
        self._lock = asyncio.Lock()

    async def summary(self, plane: PlaneId) -> NodeSummary:
        """The usage of the plane's pods; for the home plane also that of the node."""
        async with self._lock:
            before, now = await self._snapshots()
        return _summary(before, now, plane, lambda pod: self._is_on(plane, pod))

    def _is_on(self, plane: PlaneId, key: PodKey) -> bool:
        """Whether the pod's object is on the plane now: its tenant may have moved."""
        pod = self._pods.find(plane, key.tenant, key.namespace, key.name)
        return pod is not None and pod.key == key

    async def _snapshots(self) -> tuple[UsageSnapshot, UsageSnapshot]:
        """Two snapshots that are far enough apart. Requests within WINDOW_SECONDS_MIN get the same two."""
        before, now = self._before, self._now
        if before is not None and now is not None and self._clock() - now.at < WINDOW_SECONDS_MIN:
            return before, now
        latest = await self._take_snapshot()
        if now is None or not self._is_comparable(now, latest):
            now = latest
            await self._sleep(WINDOW_SECONDS_MIN)
            latest = await self._take_snapshot()
        self._before, self._now = now, latest
        return now, latest

    @staticmethod
    def _is_comparable(before: UsageSnapshot, now: UsageSnapshot) -> bool:
        window = now.at - before.at
        is_in_window = WINDOW_SECONDS_MIN <= window <= WINDOW_SECONDS_MAX
        return is_in_window and now.containers.keys() <= before.containers.keys()

    async def _take_snapshot(self) -> UsageSnapshot:
        limit = asyncio.Semaphore(CONCURRENT_MAX)
        usages = await asyncio.gather(*(_pod_usage(pod, limit) for pod in self._pods.all()))
        return UsageSnapshot(
            self._clock(), self._node(), {key: used for each in usages for key, used in each.items()}
        )


async def _pod_usage(pod: PodHandle, limit: asyncio.Semaphore) -> dict[_ContainerKey, CgroupUsage]:
    """The counters of each running container of the pod."""
    containers = {name: handle.id for name, handle in pod.containers.items()}
    async with limit:
        if pod.runtime.isolation is Isolation.SANDBOX:
            containers = await _running(pod.runtime, containers)
            if len(containers) == 1:
                return await _sandbox_usage(pod, *containers.popitem())
        usages: dict[_ContainerKey, CgroupUsage] = {}
        for name, id in containers.items():
            used = await _stats(pod.runtime, id)
            if used is not None:
                usages[pod.key, name, id] = used
        return usages


async def _sandbox_usage(pod: PodHandle, name: str, id: ContainerId) -> dict[_ContainerKey, CgroupUsage]:
    """For a container that is alone in its sandbox, the counters of the sandbox, to which the limits apply
    too. Reading those inside the sandbox takes a hundred times as long."""
    try:
        used = await _stats(pod.runtime, (await pod.runtime.status(id)).sandbox)
    except RuntimeFailure:
        return {}
    return {(pod.key, name, id): used} if used is not None else {}


async def _running(
    runtime: ContainerRuntime, containers: Mapping[str, ContainerId]
) -> dict[str, ContainerId]:
    running: dict[str, ContainerId] = {}
    for name, id in containers.items():
        try:
            if (await runtime.status(id)).phase is ContainerPhase.RUNNING:
                running[name] = id
        except RuntimeFailure:
            continue
    return running


async def _stats(runtime: ContainerRuntime, container: ContainerId) -> CgroupUsage | None:
    """None if the container is not running."""
    try:
        used = await runtime.stats(container)
    except (RuntimeFailure, OSError):
        return None
    return used if used.processes or used.cpu_nanoseconds else None


def _summary(
    before: UsageSnapshot, now: UsageSnapshot, plane: PlaneId, is_on_plane: Callable[[PodKey], bool]
) -> NodeSummary:
    window = max(now.at - before.at, 0.001)
    pods: dict[PodKey, list[ContainerUsage]] = {}
    for key, used in now.containers.items():
        earlier = before.containers.get(key)
        pod, name, _ = key
        if earlier is not None and is_on_plane(pod):
            usage = _usage(earlier, used, window)
            pods.setdefault(pod, []).append(ContainerUsage(name, usage))
    return NodeSummary(
        now.at,
        window,
        _usage(before.node, now.node, window) if plane == HOME else None,
        tuple(
            PodUsage(pod.tenant, pod.namespace, pod.name, pod.uid, now.at, window, tuple(containers))
            for pod, containers in pods.items()
        ),
    )


def _usage(before: CgroupUsage, now: CgroupUsage, window: float) -> ResourceUsage:
    cpu_nanoseconds = max(0, now.cpu_nanoseconds - before.cpu_nanoseconds)
    return ResourceUsage(int(cpu_nanoseconds / window), now.working_set_bytes)


def machine(proc: Path = Path("/proc")) -> CgroupUsage:
    """The counters of the whole machine."""
    ticks = [int(each) for each in (proc / "stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, *interrupts = ticks
    busy = user + nice + system + sum(interrupts[:2])
    fields = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
    total, available = (int(fields[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    cpu = busy * _NANOSECONDS // os.sysconf("SC_CLK_TCK")
    return CgroupUsage(cpu, total - available, total - available)
