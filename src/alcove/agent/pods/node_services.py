"""The services that pod executors of a node share: runtimes, network, volumes, images, and directories on
disk.

DIR/pods/POD         the agent's files for the pod: the sandbox's log, its range of user ids if it has one
DIR/pods/POD/files   a tmpfs: files that its containers may write to (files.py)
DIR/logs/POD         logs of its containers
DIR/snapshots/ID     file systems of containers
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from alcove.agent.cgroups import Cgroups
from alcove.agent.images.model import Image
from alcove.agent.images.pull_policy import ImagePuller
from alcove.agent.images.snapshots import OverlaySnapshots
from alcove.agent.metering.tenant_meter import TenantMeter
from alcove.agent.network.attachment import Attachment
from alcove.agent.podkey import PodKey
from alcove.agent.pods import files
from alcove.agent.pods.environment import ContainerEnvironment
from alcove.agent.pods.runtime_classes import RuntimeClasses
from alcove.agent.pods.worker_context import Note
from alcove.agent.runtime.config import IdMapping
from alcove.agent.runtime.resources import NodeCapacity
from alcove.agent.tenant_threads import TenantThreads
from alcove.agent.trusted_tenants import TrustedTenants
from alcove.agent.volumes.volumes import PodVolumes
from alcove.api import names
from alcove.api.objects import Object
from alcove.dns.resolvconf import ResolvConf
from alcove.http.handshakes import Handshakes

IDS_PER_POD = 65_536
_IDS_FIRST, _IDS_LAST = 2, 30_000
"""Numbers of the ranges of user ids for pods; lower ids are the node's."""


class PodNetwork(Protocol):
    """The node's network; hollow nodes have another implementation."""

    async def attach(self, key: PodKey, pod: Object) -> Attachment: ...

    async def restore_addresses(self, key: PodKey) -> None: ...

    async def detach(self, key: PodKey) -> None: ...

    def attached(self) -> Collection[PodKey]: ...

    async def dial(self, key: PodKey, port: int) -> socket.socket: ...

    def environment(self, key: PodKey, pod: Object) -> Mapping[str, str]: ...


class PodDirectories(Struct, frozen=True):
    data: Path

    def pod(self, key: PodKey) -> Path:
        return self.data / "pods" / key.directory_name

    def files(self, key: PodKey) -> Path:
        return self.pod(key) / "files"

    def sandbox_log(self, key: PodKey) -> Path:
        return self.pod(key) / "sandbox.log"

    def logs(self, key: PodKey) -> Path:
        return self.data / "logs" / key.directory_name

    def container_logs(self, key: PodKey) -> list[Path]:
        """The directories of the pod's logs, one per container and of its name."""
        directory = self.logs(key)
        return sorted(directory.iterdir()) if directory.is_dir() else []

    def log(self, key: PodKey, container: str, attempt: int) -> Path:
        """Raises ValueError if `container` is not a valid container name: it could lead out of the
        directory."""
        if errors := names.dns_label(container):
            raise ValueError(f"{container[:63]!r} is not a container name: {errors}")
        return self.logs(key) / container / f"{attempt}.log"


class IdRanges:
    """A range of user ids for each pod with a user namespace; kept on disk, so that no two pods share one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, directory_name: str) -> IdMapping:
        """The pod's range, allocated at the first call. `directory_name` is the pod's."""
        path = self._directory / directory_name / "ids"
        if not path.exists():
            allocated = {int(each.read_text()) for each in self._directory.glob("*/ids")}
            number = next(each for each in range(_IDS_FIRST, _IDS_LAST) if each not in allocated)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
            path.write_text(str(number))
        return IdMapping(int(path.read_text()) * IDS_PER_POD, IDS_PER_POD)


class NodeServices(Struct, frozen=True, kw_only=True):
    node: str
    """The node's name."""
    folders: PodDirectories
    group: str
    """The cgroup that contains one for each tenant with pods on this node, which contain those of the pods."""
    classes: RuntimeClasses
    trusted: TrustedTenants
    network: PodNetwork
    volumes: PodVolumes
    threads: TenantThreads
    pulls: ImagePuller
    snapshots: OverlaySnapshots
    cgroups: Cgroups
    meter: TenantMeter
    environment: ContainerEnvironment
    seccomp: Object
    machine: NodeCapacity
    capabilities: tuple[str, ...]
    pause: Image
    """The image of sandboxes."""
    addresses: tuple[str, ...]
    """The node's addresses."""
    resolv_conf: ResolvConf
    """The node's resolv.conf."""
    ids: IdRanges
    note: Note
    has_apparmor: bool = False
    handshakes: Handshakes = field(default_factory=Handshakes)
    """TLS handshakes with pods: their certificates are the tenants' choice."""

    def tenant_group(self, key: PodKey) -> str:
        """The cgroup of the pod's tenant: tenants share the CPU by what their pods request, not by how many they
        are."""
        return f"{self.group}/{key.tenant_directory_name}"

    def pod_group(self, key: PodKey) -> str:
        return f"{self.tenant_group(key)}/{key.directory_name}"


def _sweep_groups(services: NodeServices, keys: Collection[PodKey]) -> list[str]:
    cgroups = services.cgroups
    retained = {services.pod_group(key) for key in keys}
    # Pods that were started before there were cgroups of tenants.
    retained |= {f"{services.group}/{key.directory_name}" for key in keys}
    tenants = {services.tenant_group(key) for key in keys}
    removed: list[str] = []
    for tenant in cgroups.children(services.group):
        path = f"{services.group}/{tenant}"
        doomed = [f"{path}/{pod}" for pod in cgroups.children(path)] if path in tenants else [path]
        for group in set(doomed) - retained:
            cgroups.kill(group)
            cgroups.remove(group)
            removed.append(group.rpartition("/")[2])
        if path in tenants:
            cgroups.balance(path)
    return removed


def sweep(services: NodeServices, keys: Collection[PodKey]) -> Sequence[str]:
    """Removes files, snapshots and cgroups of pods that are not among `keys`: an agent that was killed may
    have left them. Returns their names. Blocks."""
    retained = {key.directory_name for key in keys}
    removed: list[str] = []
    for id in services.snapshots.ids():
        if id.partition(".")[0] not in retained:
            services.snapshots.remove(id)
            removed.append(id)
    removed += _sweep_groups(services, keys)
    for kind in ("pods", "logs"):
        directory = services.folders.data / kind
        for each in directory.iterdir() if directory.is_dir() else ():
            if each.name not in retained:
                files.unmount_space(each / "files")
                shutil.rmtree(each, ignore_errors=True)
                removed.append(each.name)
    return removed
