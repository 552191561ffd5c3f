"""The volumes of a node's pods: created before a pod starts, updated while it runs, removed after it.

    <directory>/pods/<id>/record.json    the pod and its volumes; written first, removed last
    <directory>/pods/<id>/memory/        a tmpfs: projected files, tokens and certificates
    <directory>/pods/<id>/empty/         emptyDir volumes, on disk or as a tmpfs
    <directory>/pods/<id>/tmpfs/         empty files, in place of which gVisor mounts such a tmpfs of its own
    <directory>/pods/<id>/images/        mount points of image volumes
    <directory>/pods/<id>/parts/         subPath mounts
    <directory>/local/                   local persistent volumes (local.py)

All state is on disk: after a crash or a reboot, the next agent continues from there.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from alcove.agent import file_trees, mount_calls
from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.tenant_threads import TenantThreads
from alcove.agent.trusted_tenants import is_ring0
from alcove.agent.volumes import credentials
from alcove.agent.volumes.errors import VolumeFailure, mount_failure, tenant_message
from alcove.agent.volumes.files import INODE_BYTES, memory_bytes
from alcove.agent.volumes.local import LocalVolume, LocalVolumeStore
from alcove.agent.volumes.mounts import VolumePath
from alcove.agent.volumes.sources import (
    GetImage,
    ImageVolumeMount,
    LocalVolumeMount,
    PodVolumePlan,
    ProjectedFiles,
    VolumeSources,
)
from alcove.agent.volumes.volume_mounter import FILES_BYTES_MAX, Checkpoint, VolumeMounter
from alcove.api.objects import Object
from alcove.client.keys import HOME, TenantKey

TENANT_FILES_BYTES_MAX = 256 << 20
"""Memory of projected files of all pods of a tenant on a node; a pod that would need more waits (FailedMount)."""

_RECORD = "record.json"
log = logging.getLogger(__name__)
T = TypeVar("T")


class _Record(Struct, frozen=True):
    key: PodKey
    local: dict[str, str] = {}
    """The ids of the local persistent volumes it uses, by the volume's name in the pod."""
    images: dict[str, str] = {}
    paths: dict[str, VolumePath] = {}
    """Empty until all volumes are mounted."""


class PodVolumes:
    def __init__(
        self,
        directory: Path,
        lookup: ObjectLookup,
        clock: Callable[[], float],
        *,
        node: str,
        allocatable: Callable[[], Mapping[str, str]] = dict,
        image: GetImage | None = None,
        checkpoint: Checkpoint = lambda _step: None,
        threads: TenantThreads | None = None,
        is_trusted: Callable[[PodKey], bool] = is_ring0,
    ) -> None:
        """`clock` returns wall-clock time; `node` is the name of this node; `image` pulls the images of image
        volumes; `is_trusted` says whether a pod may have paths of the node."""
        self._pods = directory / "pods"
        self._pods.mkdir(parents=True, exist_ok=True, mode=0o711)
        self.local = LocalVolumeStore(directory / "local", checkpoint)
        self._lookup = lookup
        self._checkpoint = checkpoint
        self._mounter = VolumeMounter(self.local, checkpoint)
        self._threads = threads or TenantThreads()
        self._sources = VolumeSources(lookup, clock, node, allocatable, image, is_trusted, self._threads)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._records: dict[str, _Record] = {}
        self._file_bytes: dict[PodKey, int] = {}
        """Memory of each pod's projected files: the agent writes them, so no cgroup of the pod has them. What is
        counted here is taken from the pod's memory limit."""
        self._recover()

    # For the pods' workers

    async def mount(self, key: PodKey, pod: Object) -> Mapping[str, VolumePath]:
        """Mounts all volumes of the pod and returns their paths by name. Idempotent: existing volumes keep
        their contents. `pod` is the whole object. Raises VolumeFailure; the caller retries."""
        id = _id(key)
        async with self._lock(id):
            cached = credentials.read(self._credentials_path(id))
            try:
                plan = await self._sources.plan(key, pod, cached)
                self._count_files(key, plan)
            except VolumeFailure:
                # A running pod keeps its volumes if their source objects were deleted.
                if (record := self._records.get(id)) is not None and self._is_complete(id, record):
                    return record.paths
                raise
            if not plan.volumes:
                return {}
            run, locks = self._threads.run, _local_ids(plan)
            return await self._with_locks(
                locks, lambda: run(key.tenant_key, self._set_up, id, key, pod, plan)
            )

    async def refresh(self, key: PodKey, pod: Object) -> None:
        """Updates projected volumes, each atomically; renews tokens and certificates; grows persistent volumes. Raises
        VolumeFailure if a lookup failed; that volume is unchanged, the others are updated."""
        id = _id(key)
        async with self._lock(id):
            record = self._records.get(id)
            if record is None or not record.paths:
                return
            cached = credentials.read(self._credentials_path(id))
            plan = await self._sources.plan_changing(key, pod, cached)
            self._count_files(key, plan)
            run, locks = self._threads.run, _local_ids(plan)
            await self._with_locks(locks, lambda: run(key.tenant_key, self._update, id, pod, plan))
        if plan.failure is not None:
            raise plan.failure

    async def unmount(self, key: PodKey) -> None:
        """Removes all volumes of the pod except persistent ones. Its containers must have been removed.
        Idempotent."""
        id = _id(key)
        async with self._lock(id):
            record = self._records.get(id)
            locks = sorted(set(record.local.values())) if record is not None else []
            run = self._threads.run
            await self._with_locks(locks, lambda: run(key.tenant_key, self._remove, id))
        self._file_bytes.pop(key, None)
        self._sources.forget(key)
        # A later tenant may have the same name: it must not get cached objects of this one.
        self._lookup.forget(key)

    def file_bytes(self, key: PodKey) -> int:
        """Memory of the pod's projected files."""
        return self._file_bytes.get(key, 0)

    def _count_files(self, key: PodKey, plan: PodVolumePlan) -> None:
        """Raises VolumeFailure if the pod or its tenant would have too many projected files."""
        projected = [each.files for each in plan.volumes if isinstance(each, ProjectedFiles)]
        size = sum(map(memory_bytes, projected))
        if plan.failure is not None:
            size = max(size, self.file_bytes(key))  # Volumes that could not be planned stay as they are.
        if size > FILES_BYTES_MAX:
            limits = f"{FILES_BYTES_MAX} bytes of memory together, of which a file takes whole pages"
            raise VolumeFailure(f"config maps, secrets and tokens of a pod may have {limits}")
        tenant = key.tenant
        others = sum(
            count for each, count in self._file_bytes.items() if each != key and each.tenant == tenant
        )
        if others + size > TENANT_FILES_BYTES_MAX:
            message = f"pods of a tenant may have {TENANT_FILES_BYTES_MAX} bytes of memory together on a node"
            raise VolumeFailure(f"config maps, secrets and tokens of all {message}")
        self._file_bytes[key] = size

    def empty_dirs(self, key: PodKey) -> list[Path]:
        """The directories of the pod's emptyDir volumes on disk, each with the volume's name."""
        entries = _entries(self._pods / _id(key) / "empty")
        return [path for path in entries if not os.path.ismount(path)]  # Those on a tmpfs count as memory.

    def ids(self) -> list[PodKey]:
        """The pods that have volumes on this node."""
        return [record.key for record in list(self._records.values())]

    def images_in_use(self) -> set[str]:
        """The digests of images that pods use as volumes."""
        return {digest for record in list(self._records.values()) for digest in record.images.values()}

    # For the wiper of persistent volumes

    def is_used(self, local_id: str, except_pod: str = "") -> bool:
        """Whether a pod uses the volume, other than the pod with the id `except_pod`."""
        records = list(self._records.items())  # A copy: other threads change the records concurrently.
        return any(local_id in record.local.values() for id, record in records if id != except_pod)

    async def wipe(self, volume: LocalVolume) -> bool:
        """False if the volume is still in use; the caller retries."""
        async with self._lock(volume.id):
            if self.is_used(volume.id):
                return False
            return await self._threads.run(TenantKey(HOME, volume.tenant), self.local.wipe, volume)

    # Making

    def _set_up(self, id: str, key: PodKey, pod: Object, plan: PodVolumePlan) -> Mapping[str, VolumePath]:
        previous = self._records.get(id)
        is_first = previous is None or not previous.paths
        home = self._pods / id
        try:
            self._check_exclusive(id, plan)
            home.mkdir(exist_ok=True, mode=0o711)
            self._checkpoint("make folder of pod")
            local = {each.name: each.volume.id for each in plan.volumes if isinstance(each, LocalVolumeMount)}
            images = {each.name: each.digest for each in plan.volumes if isinstance(each, ImageVolumeMount)}
            record = self._write(
                id, _Record(key, local, images, previous.paths if previous is not None else {})
            )
            self._write_credentials(home, plan)
            paths = {each.name: self._mounter.mount(home, pod, each, is_first) for each in plan.volumes}
        except OSError as error:
            raise VolumeFailure(f"failed to set up volumes: {tenant_message(error)}") from error
        self._write(id, structs.replace(record, paths=paths))
        return paths

    def _check_exclusive(self, id: str, plan: PodVolumePlan) -> None:
        for each in plan.volumes:
            if not isinstance(each, LocalVolumeMount) or not each.is_exclusive:
                continue
            if self.is_used(each.volume.id, except_pod=id):
                message = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
                raise mount_failure(each.name, message)

    # Changing

    def _update(self, id: str, pod: Object, plan: PodVolumePlan) -> None:
        home = self._pods / id
        try:
            self._write_credentials(home, plan)
            for each in plan.volumes:
                if isinstance(each, ProjectedFiles):
                    self._mounter.set_up(home, pod, each, is_first=False)
                elif isinstance(each, LocalVolumeMount) and not each.read_only:
                    self.local.mount(each.volume)
        except OSError as error:
            raise VolumeFailure(f"failed to update volumes: {tenant_message(error)}") from error

    def _write_credentials(self, home: Path, plan: PodVolumePlan) -> None:
        if plan.credentials:
            self._mounter.tmpfs(home)
            credentials.write(self._credentials_path(home.name), plan.credentials)

    # Removing

    def _remove(self, id: str) -> None:
        home = self._pods / id
        for path in mount_calls.mounts_below(home):
            mount_calls.unmount_all(path)
            self._checkpoint("unmount")
        record = self._records.get(id)
        for local in set(record.local.values()) if record is not None else ():
            if not self.is_used(local, except_pod=id):
                self.local.unmount(local)
                self._checkpoint("unmount volume")
        # The record is removed last: after a crash the next agent uses it to finish the removal.
        file_trees.remove(*(path for path in _entries(home) if path.name != _RECORD))
        self._checkpoint("remove files")
        file_trees.remove(home)
        self._records.pop(id, None)

    def _recover(self) -> None:
        for home in self._pods.iterdir():
            try:
                content = (home / _RECORD).read_bytes()
                record = self._records[home.name] = msgspec.json.decode(
                    content, type=_Record, dec_hook=lambda _type, text: Path(text)
                )
                if size := _memory_used(home / "memory"):
                    self._file_bytes[record.key] = size
            except (FileNotFoundError, msgspec.DecodeError):
                # The agent was stopped before it had written the record.
                _remove_leftover(self._remove, home.name)
        used = {local for record in self._records.values() for local in record.local.values()}
        for volume in self.local.all():
            if volume.id not in used:
                self.local.unmount(volume.id)

    def _write(self, id: str, record: _Record) -> _Record:
        if self._records.get(id) != record:
            path = self._pods / id / _RECORD
            draft = path.with_suffix(".new")
            draft.write_bytes(msgspec.json.encode(record, enc_hook=str))
            draft.rename(path)
            self._records[id] = record
            self._checkpoint("write record")
        return record

    def _is_complete(self, id: str, record: _Record) -> bool:
        """Whether all volumes are still mounted; after a reboot they are not."""
        home = self._pods / id
        mount_points = [path for path in (home / "memory",) if path.exists()]
        mount_points += [self.local.root(local) for local in record.local.values()]
        return bool(record.paths) and all(os.path.ismount(path) for path in mount_points)

    def _credentials_path(self, id: str) -> Path:
        return self._pods / id / "memory" / ".credentials"

    def _lock(self, id: str) -> asyncio.Lock:
        lock = self._locks.get(id)
        if lock is None:
            lock = self._locks[id] = asyncio.Lock()
        return lock

    async def _with_locks(self, ids: list[str], work: Callable[[], Awaitable[T]]) -> T:
        """Runs `work` with the locks of the persistent volumes held. `ids` must be sorted, to avoid
        deadlocks."""
        if not ids:
            return await work()
        async with self._lock(ids[0]):
            return await self._with_locks(ids[1:], work)


def _remove_leftover(remove: Callable[[str], None], id: str) -> None:
    try:
        remove(id)
    except OSError as error:
        log.warning("failed to remove leftover pod volumes", extra={"directory": id, "error": str(error)})


def _local_ids(plan: PodVolumePlan) -> list[str]:
    return sorted({each.volume.id for each in plan.volumes if isinstance(each, LocalVolumeMount)})


def _memory_used(directory: Path) -> int:
    """What the tmpfs has in memory; 0 if none is mounted there."""
    if not os.path.ismount(directory):
        return 0
    used = os.statvfs(directory)
    return (used.f_blocks - used.f_bfree) * used.f_frsize + (used.f_files - used.f_ffree) * INODE_BYTES


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.exists() else []


def _id(key: PodKey) -> str:
    """A safe directory name: a hash, since parts of the key are chosen by tenants."""
    whole = "\0".join((key.plane, key.tenant, key.namespace, key.name, key.uid))
    return hashlib.sha256(whole.encode()).hexdigest()[:32]
