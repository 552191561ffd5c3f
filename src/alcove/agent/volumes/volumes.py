"""The volumes of a node's pods: made before a pod starts, kept up to date while it runs, gone when it is.

    <folder>/pods/<id>/record.json    whose it is; written first, removed last
    <folder>/pods/<id>/memory/        a file system in memory: files made of objects, and tokens
    <folder>/pods/<id>/empty/         empty folders on the disk, and file systems in memory, as pods ask for them
    <folder>/pods/<id>/images/        where files of images are mounted
    <folder>/pods/<id>/parts/         parts of volumes, where a container wants only these
    <folder>/local/                   persistent volumes (local.py)

What is on disk tells everything: whoever starts anew, after a crash or a reboot, goes on from there.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar, assert_never
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from alcove.agent import file_trees, mount_calls
from alcove.agent.lookup import ObjectLookup
from alcove.agent.mount_calls import MS_NODEV, MS_NOEXEC, MS_NOSUID
from alcove.agent.podkey import PodKey
from alcove.agent.volumes import atomic, host, ownership, tokens
from alcove.agent.volumes.errors import VolumeFailure, of_volume, tenant_message
from alcove.agent.volumes.local import LocalVolume, LocalVolumeStore
from alcove.agent.volumes.mounts import VolumePath
from alcove.agent.volumes.sources import (
    EmptyDirMount,
    GetImage,
    HostPathMount,
    ImageVolumeMount,
    LocalVolumeMount,
    Planned,
    PodVolumePlan,
    ProjectedFiles,
    VolumeSources,
    fs_group,
)
from alcove.api import objects
from alcove.api.objects import Object

FILES_BYTES_MAX = 64 << 20
"""All files of a pod that are made of objects, and as much again while they change."""

_RECORD = "record.json"
log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
Checkpoint = Callable[[str], None]


class _Record(Struct, frozen=True):
    key: PodKey
    local: dict[str, str] = {}
    """Which persistent volumes it uses: by the volume's name in the pod."""
    images: dict[str, str] = {}
    paths: dict[str, VolumePath] = {}
    """Empty until everything is there."""


class PodVolumes:
    def __init__(
        self,
        folder: Path,
        lookup: ObjectLookup,
        clock: Callable[[], float],
        *,
        node: str,
        allocatable: Callable[[], Mapping[str, str]] = dict,
        image: GetImage | None = None,
        checkpoint: Checkpoint = lambda _step: None,
    ) -> None:
        """`clock` is the wall's; `node` is this one's name; `image` fetches what image volumes name."""
        self._pods = folder / "pods"
        self._pods.mkdir(parents=True, exist_ok=True, mode=0o711)
        self.local = LocalVolumeStore(folder / "local", checkpoint)
        self._lookup = lookup
        self._sources = VolumeSources(lookup, clock, node, allocatable, image)
        self._checkpoint = checkpoint
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._records: dict[str, _Record] = {}
        self._recover()

    # For the pods' workers

    async def mount(self, key: PodKey, pod: Object) -> Mapping[str, VolumePath]:
        """All volumes of the pod, by name. Idempotent: what is there stays, with what is in it. `pod` is the
        whole object. VolumeFailure: not now; to be tried again."""
        id = _id(key)
        async with self._turn(id):
            known = tokens.read(self._tokens_of(id))
            try:
                plan = await self._sources.plan(key, pod, known)
            except VolumeFailure:
                # A pod that runs goes on with what it has, whatever became of the objects it was made of.
                if (record := self._records.get(id)) is not None and self._is_whole(id, record):
                    return record.paths
                raise
            if not plan.volumes:
                return {}
            locks = _local_ids(plan)
            return await self._with_locks(locks, lambda: _in_thread(self._make, id, key, pod, plan))

    async def refresh(self, key: PodKey, pod: Object) -> None:
        """Brings what is made of objects up to date, each volume at once; renews tokens; lets volumes grow.
        VolumeFailure: something could not be looked up, and is as it was; the rest is done."""
        id = _id(key)
        async with self._turn(id):
            record = self._records.get(id)
            if record is None or not record.paths:
                return
            plan = await self._sources.plan_changing(key, pod, tokens.read(self._tokens_of(id)))
            await self._with_locks(_local_ids(plan), lambda: _in_thread(self._change, id, pod, plan))
        if plan.failure is not None:
            raise plan.failure

    async def unmount(self, key: PodKey) -> None:
        """Nothing is left of the pod's volumes but persistent ones. Its containers must be gone. Idempotent."""
        id = _id(key)
        async with self._turn(id):
            record = self._records.get(id)
            locks = sorted(set(record.local.values())) if record is not None else []
            await self._with_locks(locks, lambda: _in_thread(self._remove, id))
        # Another tenant may have this one's name soon: nothing that was looked up for it may be left.
        self._lookup.forget(key)

    async def usage(self, key: PodKey) -> dict[str, int]:
        """What the pod's empty folders on the disk take, in bytes, by the volume's name."""
        return (await self.usages([key])).get(key, {})

    async def usages(self, keys: list[PodKey]) -> dict[PodKey, dict[str, int]]:
        """The same for many pods: one process measures them all."""
        places = [(key, path) for key in keys for path in self._empties(_id(key))]
        sizes = await _in_thread(file_trees.used_bytes, [path for _, path in places])
        found: dict[PodKey, dict[str, int]] = {}
        for (key, path), size in zip(places, sizes, strict=True):
            found.setdefault(key, {})[path.name] = size
        return found

    def ids(self) -> list[PodKey]:
        """Pods of whose volumes anything is on this node."""
        return [record.key for record in list(self._records.values())]

    def images_in_use(self) -> set[str]:
        """Digests of images that are volumes of pods."""
        return {digest for record in list(self._records.values()) for digest in record.images.values()}

    # For whoever wipes persistent volumes

    def is_used(self, local_id: str, but_by: str = "") -> bool:
        """Whether a pod has it, other than the one whose folder has the name `but_by`."""
        records = list(self._records.items())  # Others make volumes in threads of their own meanwhile.
        return any(local_id in record.local.values() for id, record in records if id != but_by)

    async def wipe(self, volume: LocalVolume) -> bool:
        """False: not yet, it is still open. Then it should be tried again."""
        async with self._turn(volume.id):
            return not self.is_used(volume.id) and await _in_thread(self.local.wipe, volume)

    # Making

    def _make(self, id: str, key: PodKey, pod: Object, plan: PodVolumePlan) -> Mapping[str, VolumePath]:
        before = self._records.get(id)
        is_first = before is None or not before.paths
        home = self._pods / id
        try:
            self._check_exclusive(id, plan)
            home.mkdir(exist_ok=True, mode=0o711)
            self._checkpoint("make folder of pod")
            local = {each.name: each.volume.id for each in plan.volumes if isinstance(each, LocalVolumeMount)}
            images = {each.name: each.digest for each in plan.volumes if isinstance(each, ImageVolumeMount)}
            record = self._write(id, _Record(key, local, images, before.paths if before is not None else {}))
            self._write_tokens(home, plan)
            paths = {each.name: self._made(home, pod, each, is_first) for each in plan.volumes}
        except OSError as error:
            raise VolumeFailure(f"volumes of the pod cannot be made: {tenant_message(error)}") from error
        self._write(id, structs.replace(record, paths=paths))
        return paths

    def _made(self, home: Path, pod: Object, planned: Planned, is_first: bool) -> VolumePath:
        try:
            return self._path(home, pod, planned, is_first)
        except (VolumeFailure, OSError) as error:
            raise of_volume(planned.name, error) from error

    def _path(self, home: Path, pod: Object, planned: Planned, is_first: bool) -> VolumePath:
        parts = home / "parts"
        match planned:
            case ProjectedFiles(name, contents):
                folder = self._memory(home) / name
                folder.mkdir(exist_ok=True, mode=0o755)
                atomic.write(folder, contents, fs_group(pod), self._checkpoint)
                return VolumePath(folder, True, parts)
            case EmptyDirMount(name):
                folder = self._empty(home, planned)
                _own(folder, pod, is_first)
                return VolumePath(folder, False, parts)
            case HostPathMount(_, source, read_only):
                return VolumePath(host.path_of(source), read_only, parts, is_shared_with_node=True)
            case LocalVolumeMount(_, volume, read_only):
                folder = self.local.mount(volume)
                if not read_only:
                    _own(folder, pod, is_first)
                return VolumePath(folder, read_only, parts)
            case ImageVolumeMount():
                return VolumePath(self._unpacked(home, planned), True, parts)
        assert_never(planned)

    def _memory(self, home: Path) -> Path:
        folder = home / "memory"
        folder.mkdir(exist_ok=True, mode=0o711)
        if not os.path.ismount(folder):
            flags = MS_NODEV | MS_NOSUID | MS_NOEXEC
            _mount_memory(folder, flags, f"mode=711,size={2 * FILES_BYTES_MAX}")
            self._checkpoint("mount memory")
        return folder

    def _empty(self, home: Path, wanted: EmptyDirMount) -> Path:
        folder = home / "empty" / wanted.name
        folder.parent.mkdir(exist_ok=True, mode=0o711)
        is_new = not folder.exists()
        if is_new:
            folder.mkdir()
            self._checkpoint("make empty folder")
        if is_new and not wanted.is_memory:
            folder.chmod(0o777)
        if mount_calls.has_devices(folder):
            if wanted.is_memory:
                size = f",size={wanted.size_bytes}" if wanted.size_bytes else ""
                mount_calls.mount("tmpfs", folder, "tmpfs", MS_NODEV, f"mode=777{size}")
            else:
                _bind(folder, folder, read_only=False)
            self._checkpoint("mount empty folder")
        return folder

    def _unpacked(self, home: Path, wanted: ImageVolumeMount) -> Path:
        """An image may hold device nodes: they must mean nothing, whatever the runtime makes of them."""
        folder = home / "images" / wanted.name
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        if mount_calls.has_devices(folder):
            _bind(wanted.path, folder, read_only=True)
            self._checkpoint("mount image")
        return folder

    def _check_exclusive(self, id: str, plan: PodVolumePlan) -> None:
        for each in plan.volumes:
            if not isinstance(each, LocalVolumeMount) or not each.is_exclusive:
                continue
            if self.is_used(each.volume.id, but_by=id):
                why = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
                raise of_volume(each.name, why)

    # Changing

    def _change(self, id: str, pod: Object, plan: PodVolumePlan) -> None:
        home = self._pods / id
        try:
            self._write_tokens(home, plan)
            for each in plan.volumes:
                if isinstance(each, ProjectedFiles):
                    self._path(home, pod, each, is_first=False)
                elif isinstance(each, LocalVolumeMount) and not each.read_only:
                    self.local.mount(each.volume)
        except OSError as error:
            raise VolumeFailure(f"volumes of the pod cannot be changed: {tenant_message(error)}") from error

    def _write_tokens(self, home: Path, plan: PodVolumePlan) -> None:
        if plan.tokens:
            self._memory(home)
            tokens.write(self._tokens_of(home.name), plan.tokens)

    # Removing

    def _remove(self, id: str) -> None:
        home = self._pods / id
        for path in mount_calls.mounts_below(home):
            mount_calls.unmount_all(path)
            self._checkpoint("unmount")
        record = self._records.get(id)
        for local in set(record.local.values()) if record is not None else ():
            if not self.is_used(local, but_by=id):
                self.local.unmount(local)
                self._checkpoint("unmount volume")
        # The record goes last: while there is one, whoever starts anew knows that this is to be done.
        file_trees.remove(*(path for path in _entries(home) if path.name != _RECORD))
        self._checkpoint("remove files")
        file_trees.remove(home)
        self._records.pop(id, None)

    def _recover(self) -> None:
        for home in self._pods.iterdir():
            try:
                content = (home / _RECORD).read_bytes()
                self._records[home.name] = msgspec.json.decode(
                    content, type=_Record, dec_hook=lambda _type, text: Path(text)
                )
            except (FileNotFoundError, msgspec.DecodeError):
                # Its maker was stopped before it could write down what it makes.
                _try_to(self._remove, home.name)
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

    def _is_whole(self, id: str, record: _Record) -> bool:
        """Whether all that was made is still there: after a reboot it is not."""
        home = self._pods / id
        needed = [path for path in (home / "memory",) if path.exists()]
        needed += [self.local.root(local) for local in record.local.values()]
        return bool(record.paths) and all(os.path.ismount(path) for path in needed)

    def _empties(self, id: str) -> list[Path]:
        found = _entries(self._pods / id / "empty")
        return [path for path in found if not os.path.ismount(path)]  # Those in memory are bounded by it.

    def _tokens_of(self, id: str) -> Path:
        return self._pods / id / "memory" / ".tokens"

    def _turn(self, id: str) -> asyncio.Lock:
        lock = self._turns.get(id)
        if lock is None:
            lock = self._turns[id] = asyncio.Lock()
        return lock

    async def _with_locks(self, ids: list[str], work: Callable[[], Awaitable[T]]) -> T:
        """Two pods that share a persistent volume take turns; always in the same order."""
        if not ids:
            return await work()
        async with self._turn(ids[0]):
            return await self._with_locks(ids[1:], work)


def _try_to(remove: Callable[[str], None], id: str) -> None:
    try:
        remove(id)
    except OSError as error:
        log.warning("volumes left by a pod not removed", extra={"folder": id, "why": str(error)})


def _local_ids(plan: PodVolumePlan) -> list[str]:
    return sorted({each.volume.id for each in plan.volumes if isinstance(each, LocalVolumeMount)})


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def _id(key: PodKey) -> str:
    """A name for folders: whatever the parts of a key are, it is one of ours."""
    whole = "\0".join((key.plane, key.tenant, key.namespace, key.name, key.uid))
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


def _own(folder: Path, pod: Object, is_first: bool) -> None:
    """All of it when the pod starts, if it does not say otherwise; later only what is new as a whole."""
    group = fs_group(pod)
    if group is None:
        return
    policy = objects.get(pod, "spec", "securityContext", "fsGroupChangePolicy")
    if (is_first and policy != "OnRootMismatch") or not ownership.is_owned(folder, group):
        ownership.set_group_ownership(folder, group)


def _bind(source: Path, target: Path, read_only: bool) -> None:
    """Without the meaning of device nodes."""
    descriptor = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mount_calls.bind(descriptor, target, nodev=True, read_only=read_only)
    finally:
        os.close(descriptor)


def _mount_memory(folder: Path, flags: int, options: str) -> None:
    """Never on a disk, not even in swap, where the kernel can promise that."""
    try:
        mount_calls.mount("tmpfs", folder, "tmpfs", flags, f"{options},noswap")
    except OSError:
        mount_calls.mount("tmpfs", folder, "tmpfs", flags, options)


async def _in_thread(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Cancelled, it still waits for the end: nobody else may touch the same files before."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
