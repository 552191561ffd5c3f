"""What all pods of a node are made with: runtimes, network, volumes, images, and places on its disk.

DIR/pods/PLACE       files for the pod's containers; its range of user ids, if it has one
DIR/logs/PLACE       logs of its containers
DIR/snapshots/ID     file systems of containers
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from alcove.agent.cgroups import Cgroups
from alcove.agent.images.model import Image
from alcove.agent.images.policy import Pulls
from alcove.agent.images.snapshots import Snapshots
from alcove.agent.network.attachment import Attachment
from alcove.agent.podkey import PodKey
from alcove.agent.pods.classes import Classes
from alcove.agent.pods.environment import Environment
from alcove.agent.pods.surroundings import Note
from alcove.agent.runtime.config import IdMapping
from alcove.agent.runtime.resources import Machine
from alcove.agent.volumes.volumes import Volumes
from alcove.api import names
from alcove.api.objects import Object
from alcove.dns.resolvconf import ResolvConf

IDS_PER_POD = 65_536
_IDS_FIRST, _IDS_LAST = 2, 30_000
"""Ranges of user ids, by number; below are the node's own."""


class Attaching(Protocol):
    """The node's network; hollow nodes have another."""

    async def attach(self, key: PodKey, pod: Object) -> Attachment: ...

    async def equip(self, key: PodKey) -> None: ...

    async def detach(self, key: PodKey) -> None: ...

    def attached(self) -> Collection[PodKey]: ...

    async def dial(self, key: PodKey, port: int) -> socket.socket: ...

    def environment(self, key: PodKey, pod: Object) -> Mapping[str, str]: ...


class Folders(Struct, frozen=True):
    data: Path

    def pod(self, key: PodKey) -> Path:
        return self.data / "pods" / key.place

    def logs(self, key: PodKey) -> Path:
        return self.data / "logs" / key.place

    def log(self, key: PodKey, container: str, attempt: int) -> Path:
        """Raises ValueError if `container` is not a container's name: it might lead out of the folder."""
        if fault := names.dns_label(container):
            raise ValueError(f"{container[:63]!r} is not a container name: {fault}")
        return self.logs(key) / container / f"{attempt}.log"


class IdRanges:
    """A range of user ids for each pod that wants its own; written down, so that no two ever share one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, place: str) -> IdMapping:
        path = self._folder / place / "ids"
        if not path.exists():
            taken = {int(each.read_text()) for each in self._folder.glob("*/ids")}
            number = next(each for each in range(_IDS_FIRST, _IDS_LAST) if each not in taken)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
            path.write_text(str(number))
        return IdMapping(int(path.read_text()) * IDS_PER_POD, IDS_PER_POD)


class Workshop(Struct, frozen=True, kw_only=True):
    node: str
    """Its name."""
    folders: Folders
    group: str
    """The control group that all pods are in."""
    classes: Classes
    network: Attaching
    volumes: Volumes
    pulls: Pulls
    snapshots: Snapshots
    cgroups: Cgroups
    environment: Environment
    seccomp: Object
    machine: Machine
    capabilities: tuple[str, ...]
    pause: Image
    """What sandboxes are made from."""
    addresses: tuple[str, ...]
    """The node's."""
    resolv_conf: ResolvConf
    """The node's."""
    ids: IdRanges
    note: Note


def sweep(workshop: Workshop, keys: Collection[PodKey]) -> Sequence[str]:
    """Removes what is on the disk of pods that are not among `keys`: left by a kill in a bad moment. Blocks."""
    known = {key.place for key in keys}
    removed: list[str] = []
    for id in workshop.snapshots.ids():
        if id.partition(".")[0] not in known:
            workshop.snapshots.remove(id)
            removed.append(id)
    for group in workshop.cgroups.children(workshop.group):
        if group not in known:
            workshop.cgroups.kill(f"{workshop.group}/{group}")
            workshop.cgroups.remove(f"{workshop.group}/{group}")
            removed.append(group)
    for kind in ("pods", "logs"):
        folder = workshop.folders.data / kind
        for each in folder.iterdir() if folder.is_dir() else ():
            if each.name not in known:
                shutil.rmtree(each, ignore_errors=True)
                removed.append(each.name)
    return removed
