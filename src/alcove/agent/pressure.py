"""Resource pressure of a node, and which pod is evicted for it: pure functions, except `measure`.

Eviction goes tenant by tenant. First comes the tenant whose pods together use most above what they request
together; among its pods the order is the kubelet's: pods that use more than their requests, then lower
priority, then those furthest above their requests. So priorities and requests, which tenants choose
themselves, decide between pods of one tenant, and never send a stranger's pod away.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from alcove.agent.file_trees import TreeUsage
from alcove.agent.hardware import available_memory
from alcove.agent.pod_storage import PodStorage
from alcove.agent.podkey import PodKey
from alcove.agent.trusted_tenants import is_ring0
from alcove.api.kinds.core.pods.totals import container_limits, container_requests, pod_requests
from alcove.api.objects import Object
from alcove.api.quantity import of

MEMORY, STORAGE, INODES, PROCESSES = "memory", "ephemeral-storage", "inodes", "pids"
"""The resources for which pods are evicted, as in messages of the kubelet."""
MEMORY_BYTES_MIN = 100 << 20
DISK_SHARE_MIN, DISK_BYTES_ENOUGH = 0.10, 2 << 30
"""Disk pressure: less than this share of the disk is free, and less than this many bytes."""
INODE_SHARE_MIN, INODES_ENOUGH = 0.05, 200_000
"""Disk pressure as well: less than this share of the inodes is free, and less than this number."""
PROCESS_SHARE_MIN = 0.05
POD_STORAGE_BYTES_MAX = 20 << 30
"""Bytes that a pod may have on the node's disk without requesting them (its own limits may be lower); it is
evicted if it has more. Never more than a quarter of the disk."""
POD_FILES_MAX = 500_000
"""Files and directories that a pod may have on the node's disk; it is evicted if it has more. Never more than a
quarter of the disk's inodes."""
_DISK_PART = 4
_CRITICAL_PRIORITY = 2_000_000_000


class FreeResources(Struct, frozen=True):
    """The node's free resources."""

    memory_bytes: int
    disk_bytes: int
    disk_size_bytes: int
    processes: int
    processes_max: int
    inodes: int = 0
    inodes_max: int = 0
    """0 for file systems without a fixed number."""

    @property
    def lacks_memory(self) -> bool:
        return self.memory_bytes < MEMORY_BYTES_MIN

    @property
    def lacks_disk(self) -> bool:
        return self.disk_bytes < min(DISK_SHARE_MIN * self.disk_size_bytes, DISK_BYTES_ENOUGH)

    @property
    def lacks_inodes(self) -> bool:
        return self.inodes < min(INODE_SHARE_MIN * self.inodes_max, INODES_ENOUGH)

    @property
    def lacks_processes(self) -> bool:
        return self.processes < PROCESS_SHARE_MIN * self.processes_max

    @property
    def lacking(self) -> str:
        """The resource for which a pod must be evicted first; empty if there is none."""
        short = {
            STORAGE: self.lacks_disk,
            INODES: self.lacks_inodes,
            MEMORY: self.lacks_memory,
            PROCESSES: self.lacks_processes,
        }
        return next((resource for resource, is_short in short.items() if is_short), "")


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
        inodes=disk.f_favail,
        inodes_max=disk.f_files,
    )


class EvictionCandidate(Struct, frozen=True):
    key: PodKey
    spec: Object
    used: int
    """Usage of the resource under pressure."""

    def above(self, resource: str) -> int:
        """How much it uses above its requests; negative if it uses less."""
        requests = pod_requests(self.spec)
        return self.used - (requests[resource].value if resource in requests else 0)

    @property
    def is_critical(self) -> bool:
        """Whether the node needs it. A tenant's priorities say nothing about that."""
        return is_ring0(self.key) and (self.spec.get("priority") or 0) >= _CRITICAL_PRIORITY


def choose(candidates: Sequence[EvictionCandidate], resource: str) -> EvictionCandidate | None:
    """The pod to evict under pressure of `resource`; None if all are critical."""
    above: dict[str, int] = {}
    for each in candidates:
        tenant = each.key.tenant
        above[tenant] = above.get(tenant, 0) + each.above(resource)
    evictable = [each for each in candidates if not each.is_critical]
    return min(
        evictable,
        key=lambda each: (-above[each.key.tenant], _rank(each, resource)),
        default=None,
    )


def _rank(candidate: EvictionCandidate, resource: str) -> tuple[bool, int, int]:
    above = candidate.above(resource)
    return (above <= 0, candidate.spec.get("priority") or 0, -above)


class StorageBounds(Struct, frozen=True):
    """What every pod of the node may have on its disk."""

    pod_bytes_max: int = POD_STORAGE_BYTES_MAX
    pod_files_max: int = POD_FILES_MAX

    def on(self, disk: FreeResources) -> StorageBounds:
        """The same, but no more than a quarter of the disk."""
        files = min(self.pod_files_max, disk.inodes_max // _DISK_PART or self.pod_files_max)
        return StorageBounds(min(self.pod_bytes_max, disk.disk_size_bytes // _DISK_PART), files)


def over_limit(spec: Object, storage: PodStorage, bounds: StorageBounds) -> str:
    """Why a pod is evicted for the storage it uses; empty if it may use it."""
    for volume in spec.get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        used = storage.volumes.get(volume["name"], TreeUsage()).bytes
        if limit and used > of(limit).value > 0:
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    for container in spec.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        limit = limits.get(STORAGE)
        used = storage.containers.get(container["name"], TreeUsage()).bytes
        if limit and used > of(limit).value:
            return f'Container {container["name"]} exceeded its local ephemeral storage limit "{limit}". '
    return _over_total(spec, storage.total, bounds)


def _over_total(spec: Object, total: TreeUsage, bounds: StorageBounds) -> str:
    containers = spec.get("containers") or ()
    limit, requests = container_limits(spec).get(STORAGE), container_requests(spec)
    is_limited = all(STORAGE in ((each.get("resources") or {}).get("limits") or {}) for each in containers)
    if limit is not None and is_limited and total.bytes > limit.value:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    requested = requests[STORAGE].value if STORAGE in requests else 0
    if total.bytes > max(bounds.pod_bytes_max, requested):
        return (
            f"Pod ephemeral local storage usage exceeds the {bounds.pod_bytes_max} bytes "
            "that this node allows a pod that does not request more. "
        )
    if total.files > bounds.pod_files_max or total.is_cut:
        return f"Pod has more than the {bounds.pod_files_max} files that this node allows a pod. "
    return ""
