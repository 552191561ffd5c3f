"""How much of the node's disk each pod uses, in bytes and in files: its emptyDir volumes, the writable layers
and the logs of its containers.

The trees are hostile: a pod may make millions of files. They are walked by `du` processes of low priority, a
few at a time and each for one tenant, so that one tenant's files delay the measurement of nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from alcove.agent import file_trees
from alcove.agent.file_trees import TreeUsage
from alcove.agent.images.snapshots import OverlaySnapshots
from alcove.agent.podkey import PodKey
from alcove.agent.pods.node_services import PodDirectories
from alcove.agent.volumes.volumes import PodVolumes

MEASUREMENTS_MAX = 2
"""Tenants whose pods are measured at the same time on a node; others wait for their turn."""
MEASURE_SECONDS_MAX = 120.0
"""Time to walk the files of one tenant's pods on a node; a pod that takes longer counts as one with too many
files."""


class PodStorage(Struct, frozen=True):
    volumes: Mapping[str, TreeUsage] = {}
    """The pod's emptyDir volumes on disk, by name."""
    containers: Mapping[str, TreeUsage] = {}
    """Writable layers and logs, by container."""

    @property
    def total(self) -> TreeUsage:
        return _sum((*self.volumes.values(), *self.containers.values()))


class PodStorageMeter:
    def __init__(self, folders: PodDirectories, volumes: PodVolumes, snapshots: OverlaySnapshots) -> None:
        self._folders = folders
        self._volumes = volumes
        self._snapshots = snapshots
        self._slots = asyncio.Semaphore(MEASUREMENTS_MAX)

    async def measure(self, keys: Sequence[PodKey]) -> dict[PodKey, PodStorage]:
        """The usage of each pod. A pod whose files are too many to be counted has `TreeUsage.is_cut`."""
        layers = await asyncio.to_thread(self._snapshots.layers)
        tenants: dict[str, list[PodKey]] = {}
        for key in keys:
            tenants.setdefault(key.tenant, []).append(key)
        measured = await asyncio.gather(*(self._measure_tenant(each, layers) for each in tenants.values()))
        return {key: storage for each in measured for key, storage in each.items()}

    async def _measure_tenant(
        self, keys: Sequence[PodKey], layers: Mapping[str, Sequence[tuple[str, Path]]]
    ) -> dict[PodKey, PodStorage]:
        async with self._slots:
            return await asyncio.to_thread(self._walk, keys, layers)

    def _walk(
        self, keys: Sequence[PodKey], layers: Mapping[str, Sequence[tuple[str, Path]]]
    ) -> dict[PodKey, PodStorage]:
        volumes = [(key, path.name, path) for key in keys for path in self._volumes.empty_dirs(key)]
        containers = [(key, name, path) for key in keys for name, path in layers.get(key.directory_name, ())]
        containers += [(key, path.name, path) for key in keys for path in self._folders.container_logs(key)]
        paths = [path for _, _, path in (*volumes, *containers)]
        usages = iter(file_trees.usages(paths, MEASURE_SECONDS_MAX))
        by_volume: dict[PodKey, dict[str, TreeUsage]] = {key: {} for key in keys}
        by_container: dict[PodKey, dict[str, TreeUsage]] = {key: {} for key in keys}
        for key, name, _ in volumes:
            by_volume[key][name] = next(usages)
        for key, name, _ in containers:
            by_container[key][name] = _sum((by_container[key].get(name, TreeUsage()), next(usages)))
        return {key: PodStorage(by_volume[key], by_container[key]) for key in keys}


def _sum(usages: Iterable[TreeUsage]) -> TreeUsage:
    all_usages = list(usages)
    return TreeUsage(
        sum(each.bytes for each in all_usages),
        sum(each.files for each in all_usages),
        any(each.is_cut for each in all_usages),
    )
