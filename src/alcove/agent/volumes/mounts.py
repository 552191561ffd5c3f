"""The bind mounts of a container for its pod's volumes, including subPath.

A subPath is opened beneath its volume without following symbolic links out of it, and bind-mounted by its
descriptor at a path that no container can access; the runtime mounts that path. So a container cannot
redirect it. The path of a hostPath volume, which only ring0's pods may have, is checked against the type in
its spec.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct, structs

from alcove.agent import mount_calls
from alcove.agent.runtime.config import BindMount, MemoryVolume
from alcove.agent.runtime.expand import expand
from alcove.agent.runtime.resources import CONTAINER_FIELDS
from alcove.agent.volumes.errors import VolumeFailure, mount_failure
from alcove.api.objects import Object

_PROPAGATION = {None: "rprivate", "None": "rprivate", "HostToContainer": "rslave", "Bidirectional": "rshared"}
_HOST_PATH_TYPES = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


class VolumePath(Struct, frozen=True):
    """The location of a pod's volume on the node."""

    path: Path
    read_only: bool
    parts: Path
    """The directory for subPath mounts of the pod."""
    is_shared_with_node: bool = False
    """A hostPath, in which mounts may come and go while the pod runs."""
    memory: MemoryVolume | None = None
    """An emptyDir of medium Memory in a sandbox that makes it itself; `path` is used in other runtimes."""


def memory_volume(source: Path, size_bytes: int, group: int | None) -> MemoryVolume:
    """`group` is the pod's fsGroup; a size of zero is no limit but that of the pod's memory."""
    mode = "mode=777" if group is None else f"mode=2777,gid={group}"
    return MemoryVolume(str(source), f"rw,{mode}" + (f",size={size_bytes}" if size_bytes else ""))


def sandbox_volumes(spec: Object, paths: Mapping[str, VolumePath]) -> dict[str, VolumePath]:
    """The volumes in a sandbox that makes memory volumes itself, except those that the node reads: a container mounts
    a subPath, which is a directory on the node, or has a variable from a file."""
    containers = [each for field in CONTAINER_FIELDS for each in spec.get(field) or ()]
    mounts = [mount for container in containers for mount in container.get("volumeMounts") or ()]
    on_node = {mount["name"] for mount in mounts if mount.get("subPath") or mount.get("subPathExpr")}
    for variable in (each for container in containers for each in container.get("env") or ()):
        file_key = (variable.get("valueFrom") or {}).get("fileKeyRef") or {}
        on_node.add(file_key.get("volumeName", ""))

    def in_sandbox(name: str, volume: VolumePath) -> VolumePath:
        if volume.memory is None or name in on_node:
            return structs.replace(volume, memory=None)
        return structs.replace(volume, path=Path(volume.memory.source))

    return {name: in_sandbox(name, volume) for name, volume in paths.items()}


def container_mounts(
    pod: Object,
    container: Object,
    paths: Mapping[str, VolumePath],
    variables: Mapping[str, str] | None = None,
) -> list[BindMount]:
    """The bind mounts for the container; `variables` is its environment, for `subPathExpr`. Must be called
    for each start of the container. Blocks on disk I/O if there are subPaths. Raises VolumeFailure."""
    if container.get("volumeDevices"):
        raise VolumeFailure("volumeMode Block is not supported on this node")
    return [
        _mount(container, number, mount, paths, variables or {})
        for number, mount in enumerate(container.get("volumeMounts") or ())
    ]


def _mount(
    container: Object,
    number: int,
    mount: Object,
    paths: Mapping[str, VolumePath],
    variables: Mapping[str, str],
) -> BindMount:
    name = mount.get("name") or ""
    volume = paths.get(name)
    if volume is None:
        raise VolumeFailure(f'volume "{name}" is not mounted')
    # Volumes of other kinds contain no mounts, so a read-only mount is recursively read-only.
    recursive = mount.get("recursiveReadOnly") or "" if volume.is_shared_with_node else ""
    source = volume.path
    if part := _sub_path(mount, variables):
        target = volume.parts / f"{_short(container.get('name') or '')}-{number}"
        try:
            source = _mount_sub_path(volume, part, target)
        except OSError as error:
            raise mount_failure(name, _sub_path_error(part, error)) from error
    return BindMount(
        source=str(source),
        destination=_destination(mount),
        read_only=volume.read_only or bool(mount.get("readOnly")),
        propagation=_propagation(mount, volume),
        recursive_read_only="" if recursive == "Disabled" else recursive,
    )


def _sub_path(mount: Object, variables: Mapping[str, str]) -> str:
    """The normalized subPath; empty if the whole volume is mounted."""
    part = mount.get("subPath") or expand(mount.get("subPathExpr") or "", _RequiredVariables(variables))
    parts = PurePosixPath(part).parts
    if part.startswith("/") or ".." in parts or "\0" in part:
        raise VolumeFailure(f'invalid subPath {part!r}: must be a relative path without ".."')
    return "/".join(parts)


class _RequiredVariables(dict[str, str]):
    def get(self, name: str, *_: object) -> str:
        """Raises VolumeFailure for a missing variable: an empty value would result in another path."""
        if name not in self:
            raise VolumeFailure(f"failed to expand subPathExpr: variable {name} is not set")
        return self[name]


def _destination(mount: Object) -> str:
    path = mount.get("mountPath") or ""
    return path if path.startswith("/") else f"/{path}"


def _propagation(mount: Object, volume: VolumePath) -> str:
    """The propagation of a hostPath mount; other volumes contain no mounts to propagate."""
    propagation = _PROPAGATION.get(mount.get("mountPropagation"), "rprivate")
    return propagation if volume.is_shared_with_node else "rprivate"


def _mount_sub_path(volume: VolumePath, part: str, target: Path) -> Path:
    mount_calls.unmount_all(target)
    top = os.open(volume.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = _open_sub_path(top, part, may_create=not volume.read_only)
        try:
            _create_mount_point(target, stat.S_ISDIR(os.fstat(descriptor).st_mode))
            mount_calls.bind(descriptor, target)
        finally:
            os.close(descriptor)
    finally:
        os.close(top)
    return target


def _open_sub_path(top: int, part: str, may_create: bool) -> int:
    """Opens the subPath; creates it with the owner and mode of the volume if it is missing and
    `may_create`."""
    try:
        return mount_calls.open_beneath(top, part, os.O_PATH)
    except OSError as error:
        if error.errno != errno.ENOENT or not may_create:
            raise
    current = os.dup(top)
    try:
        for name in part.split("/"):
            child = _open_or_create(current, name, os.fstat(top))
            os.close(current)
            current = child
    except BaseException:
        os.close(current)
        raise
    return current


def _open_or_create(parent: int, name: str, like: os.stat_result) -> int:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return mount_calls.open_beneath(parent, name, os.O_RDONLY | os.O_DIRECTORY)
    created = mount_calls.open_beneath(parent, name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(created, like.st_uid, like.st_gid)
        os.fchmod(created, stat.S_IMODE(like.st_mode))
    except BaseException:
        os.close(created)
        raise
    return created


def _create_mount_point(target: Path, is_directory: bool) -> None:
    target.parent.mkdir(exist_ok=True, mode=0o711)
    if target.exists() and target.is_dir() != is_directory:
        target.rmdir() if target.is_dir() else target.unlink()
    if is_directory:
        target.mkdir(exist_ok=True)
    else:
        target.touch()


def _sub_path_error(part: str, error: OSError) -> str:
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return f'failed to prepare subPath "{part}": the path escapes the volume'
    return f'failed to prepare subPath "{part}": {os.strerror(error.errno or 0)}'


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def host_path(source: Object) -> Path:
    """The path of a hostPath volume, created if the type is DirectoryOrCreate or FileOrCreate. Raises
    VolumeFailure if it has another type."""
    path, kind = Path(source.get("path") or ""), source.get("type") or ""
    if not path.is_absolute() or ".." in path.parts:
        raise VolumeFailure(f"invalid hostPath {str(path)!r}")
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(mode=0o755, parents=True)
    if kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    expected = kind.removesuffix("OrCreate")
    if expected and expected not in _HOST_PATH_TYPES:
        raise VolumeFailure(f"hostPath type check failed: unknown type {kind}")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise VolumeFailure(f"hostPath type check failed: cannot access {path}: {error.strerror}") from error
    if expected and not _HOST_PATH_TYPES[expected][0](mode):
        raise VolumeFailure(f"hostPath type check failed: {path} is not {_HOST_PATH_TYPES[expected][1]}")
    return path
