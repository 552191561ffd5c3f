"""Resource pressure of a node, and which pod is evicted for it: pure functions, except `measure`.

The ranking is the kubelet's: pods that use more than their requests come first, then lower priority, then
those furthest above their requests. Pods within their requests are evicted last.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from alcove.agent.hardware import available_memory
from alcove.agent.podkey import PodKey
from alcove.api.kinds.core.pods.totals import container_requests
from alcove.api.objects import Object
from alcove.api.quantity import of

MEMORY_BYTES_MIN = 100 << 20
DISK_SHARE_MIN, DISK_BYTES_ENOUGH = 0.10, 2 << 30
"""Disk pressure: less than this share of the disk is free, and less than this many bytes."""
PROCESS_SHARE_MIN = 0.05
_CRITICAL_PRIORITY = 2_000_000_000


class FreeResources(Struct, frozen=True):
    """The node's free resources."""

    memory_bytes: int
    disk_bytes: int
    disk_size_bytes: int
    processes: int
    processes_max: int

    @property
    def lacks_memory(self) -> bool:
        return self.memory_bytes < MEMORY_BYTES_MIN

    @property
    def lacks_disk(self) -> bool:
        return self.disk_bytes < min(DISK_SHARE_MIN * self.disk_size_bytes, DISK_BYTES_ENOUGH)

    @property
    def lacks_processes(self) -> bool:
        return self.processes < PROCESS_SHARE_MIN * self.processes_max


def measure(data: Path, root: Path = Path("/")) -> FreeResources:
    disk = os.statvfs(data)
    processes_max = int((root / "proc/sys/kernel/pid_max").read_text())
    # "0.20 0.18 0.12 1/80 11206": the fourth field is running/total.
    total = int((root / "proc/loadavg").read_text().split()[3].partition("/")[2])
    return FreeResources(
        memory_bytes=available_memory((root / "proc/meminfo").read_text()),
        disk_bytes=disk.f_bavail * disk.f_frsize,
        disk_size_bytes=disk.f_blocks * disk.f_frsize,
        processes=processes_max - total,
        processes_max=processes_max,
    )


class EvictionCandidate(Struct, frozen=True):
    key: PodKey
    spec: Object
    used_bytes: int
    """Usage of the resource under pressure."""


def choose(candidates: Sequence[EvictionCandidate], resource: str) -> EvictionCandidate | None:
    """The pod to evict under pressure of `resource` (`memory` or `ephemeral-storage`); None if all are
    critical."""
    evictable = [each for each in candidates if (each.spec.get("priority") or 0) < _CRITICAL_PRIORITY]
    return min(evictable, key=lambda each: _rank(each, resource), default=None)


def _rank(candidate: EvictionCandidate, resource: str) -> tuple[bool, int, int]:
    requests = container_requests(candidate.spec)
    above = candidate.used_bytes - (requests[resource].value if resource in requests else 0)
    return (above <= 0, candidate.spec.get("priority") or 0, -above)


def over_limit(spec: Object, volumes: Mapping[str, int], written: Mapping[str, int]) -> str:
    """Why a pod is evicted for exceeding its storage limits; empty if it does not exceed them.

    `volumes` are bytes in its emptyDir volumes, `written` in its containers' writable layers, by name.
    """
    for volume in spec.get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit and volumes.get(volume["name"], 0) > of(limit).value > 0:
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    for container in spec.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        limit = limits.get("ephemeral-storage")
        if limit and written.get(container["name"], 0) > of(limit).value:
            return f'Container {container["name"]} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def is_measured(spec: Object) -> bool:
    """Whether the pod has a storage limit that the file system does not enforce."""
    volumes = any((each.get("emptyDir") or {}).get("sizeLimit") for each in spec.get("volumes") or ())
    return volumes or any(limited(each) for each in spec.get("containers") or ())


def limited(container: Object) -> bool:
    return "ephemeral-storage" in ((container.get("resources") or {}).get("limits") or {})
