"""Mounts single volumes of pods, below the pod's directory (`volumes.py`). All functions block."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from alcove.agent import mount_calls
from alcove.agent.mount_calls import MS_NODEV, MS_NOEXEC, MS_NOSUID
from alcove.agent.runtime.config import MemoryVolume
from alcove.agent.volumes import atomic, ownership
from alcove.agent.volumes.errors import VolumeFailure, mount_failure
from alcove.agent.volumes.files import INODE_BYTES
from alcove.agent.volumes.local import LocalVolumeStore
from alcove.agent.volumes.mounts import VolumePath, host_path, memory_volume
from alcove.agent.volumes.sources import (
    EmptyDirMount,
    HostPathMount,
    ImageVolumeMount,
    LocalVolumeMount,
    Planned,
    ProjectedFiles,
    fs_group,
)
from alcove.api import objects
from alcove.api.objects import Object

FILES_BYTES_MAX = 32 << 20
"""Memory of all projected files of a pod (config maps, secrets, tokens), by whole pages and inodes; a pod with more
does not start (FailedMount). The tmpfs has twice the size, since old and new files coexist during an update."""
MEMORY_VOLUME_FILES_MAX = 500_000
"""Number of files in an emptyDir volume of medium Memory; creating more fails with ENOSPC."""

Checkpoint = Callable[[str], None]


class VolumeMounter:
    def __init__(self, local: LocalVolumeStore, checkpoint: Checkpoint) -> None:
        self._local = local
        self._checkpoint = checkpoint

    def mount(self, home: Path, pod: Object, planned: Planned, is_first: bool) -> VolumePath:
        """Mounts the volume of a pod whose directory is `home`. Idempotent. Raises VolumeFailure, which names the
        volume."""
        try:
            return self.set_up(home, pod, planned, is_first)
        except (VolumeFailure, OSError) as error:
            raise mount_failure(planned.name, error) from error

    def set_up(self, home: Path, pod: Object, planned: Planned, is_first: bool) -> VolumePath:
        """The same; raises OSError as well."""
        parts = home / "parts"
        match planned:
            case ProjectedFiles(name, contents):
                directory = self.tmpfs(home) / name
                directory.mkdir(exist_ok=True, mode=0o755)
                atomic.write(directory, contents, fs_group(pod), self._checkpoint)
                return VolumePath(directory, True, parts)
            case EmptyDirMount(name):
                directory = self._empty_dir(home, planned)
                _apply_fs_group(directory, pod, is_first)
                memory = _memory_volume(home, pod, planned, is_first) if planned.is_memory else None
                return VolumePath(directory, False, parts, memory=memory)
            case HostPathMount(_, source, read_only):
                return VolumePath(host_path(source), read_only, parts, is_shared_with_node=True)
            case LocalVolumeMount(_, volume, read_only):
                directory = self._local.mount(volume)
                if not read_only:
                    _apply_fs_group(directory, pod, is_first)
                return VolumePath(directory, read_only, parts)
            case ImageVolumeMount():
                return VolumePath(self._image_volume(home, planned), True, parts)
        assert_never(planned)

    def tmpfs(self, home: Path) -> Path:
        """The directory of the pod's projected files."""
        directory = home / "memory"
        directory.mkdir(exist_ok=True, mode=0o711)
        if not os.path.ismount(directory):
            flags = MS_NODEV | MS_NOSUID | MS_NOEXEC
            inodes = 2 * FILES_BYTES_MAX // INODE_BYTES
            _mount_memory(directory, flags, f"mode=711,size={2 * FILES_BYTES_MAX},nr_inodes={inodes}")
            self._checkpoint("mount memory")
        return directory

    def _empty_dir(self, home: Path, volume: EmptyDirMount) -> Path:
        directory = home / "empty" / volume.name
        directory.parent.mkdir(exist_ok=True, mode=0o711)
        is_new = not directory.exists()
        if is_new:
            directory.mkdir()
            self._checkpoint("make empty folder")
        if is_new and not volume.is_memory:
            directory.chmod(0o777)
        if mount_calls.has_devices(directory):
            if volume.is_memory:
                size = f",size={volume.size_bytes}" if volume.size_bytes else ""
                options = f"mode=777,nr_inodes={MEMORY_VOLUME_FILES_MAX}{size}"
                mount_calls.mount("tmpfs", directory, "tmpfs", MS_NODEV, options)
            else:
                _bind(directory, directory, read_only=False)
            self._checkpoint("mount empty folder")
        return directory

    def _image_volume(self, home: Path, volume: ImageVolumeMount) -> Path:
        """Mounts the image's files with nodev, as an image may contain device nodes."""
        directory = home / "images" / volume.name
        directory.mkdir(parents=True, exist_ok=True, mode=0o711)
        if mount_calls.has_devices(directory):
            _bind(volume.path, directory, read_only=True)
            self._checkpoint("mount image")
        return directory


def _memory_volume(home: Path, pod: Object, volume: EmptyDirMount, is_first: bool) -> MemoryVolume | None:
    """None if a sandbox may be running that was not told of the volume, by an older agent."""
    marker = home / "tmpfs" / volume.name
    if is_first:
        marker.parent.mkdir(exist_ok=True, mode=0o711)
        marker.touch()
    return memory_volume(marker, volume.size_bytes, fs_group(pod)) if marker.exists() else None


def _apply_fs_group(directory: Path, pod: Object, is_first: bool) -> None:
    """Applies fsGroup: to the whole volume when the pod starts, unless the policy is OnRootMismatch; later
    only if the top directory has the wrong ownership."""
    group = fs_group(pod)
    if group is None:
        return
    policy = objects.get(pod, "spec", "securityContext", "fsGroupChangePolicy")
    if (is_first and policy != "OnRootMismatch") or not ownership.is_owned(directory, group):
        ownership.set_group_ownership(directory, group)


def _bind(source: Path, target: Path, read_only: bool) -> None:
    """Bind-mounts `source` with nodev."""
    descriptor = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mount_calls.bind(descriptor, target, nodev=True, read_only=read_only)
    finally:
        os.close(descriptor)


def _mount_memory(directory: Path, flags: int, options: str) -> None:
    """Mounts a tmpfs that is never swapped to disk, if the kernel supports `noswap`."""
    try:
        mount_calls.mount("tmpfs", directory, "tmpfs", flags, f"{options},noswap")
    except OSError:
        mount_calls.mount("tmpfs", directory, "tmpfs", flags, options)
