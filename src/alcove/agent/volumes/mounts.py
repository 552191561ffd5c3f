"""A container's view of its pod's volumes: what is mounted where, and parts of volumes (subPath) safely.

A part is opened inside of its volume, whatever links a container put there, and mounted by its descriptor at
a place that no container sees; the runtime gets that place.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from alcove.agent import mount_calls
from alcove.agent.runtime.config import BindMount
from alcove.agent.runtime.expand import expand
from alcove.agent.volumes.errors import VolumeFailure, of_volume
from alcove.api.objects import Object

_PROPAGATION = {None: "rprivate", "None": "rprivate", "HostToContainer": "rslave", "Bidirectional": "rshared"}


class VolumePath(Struct, frozen=True):
    """Where a volume of a pod is on the node."""

    path: Path
    read_only: bool
    parts: Path
    """A folder for mounts of parts of the pod's volumes."""
    is_shared_with_node: bool = False
    """Mounts inside of it may come and go while the pod runs: what the node itself has."""


def container_mounts(
    pod: Object,
    container: Object,
    paths: Mapping[str, VolumePath],
    variables: Mapping[str, str] | None = None,
) -> list[BindMount]:
    """What the runtime mounts for the container; `variables` are its environment, for `subPathExpr`. Waits
    for the disk where parts of volumes are mounted. To be called for each start of the container."""
    if container.get("volumeDevices"):
        raise VolumeFailure("volumes of mode Block are not supported on this node")
    return [
        _mount(container, number, asked, paths, variables or {})
        for number, asked in enumerate(container.get("volumeMounts") or ())
    ]


def _mount(
    container: Object,
    number: int,
    asked: Object,
    paths: Mapping[str, VolumePath],
    variables: Mapping[str, str],
) -> BindMount:
    name = asked.get("name") or ""
    volume = paths.get(name)
    if volume is None:
        raise VolumeFailure(f'volume "{name}" is not mounted')
    if volume.is_shared_with_node and asked.get("recursiveReadOnly") == "Enabled":
        # In volumes of other kinds nothing is mounted: read only is read only all through.
        raise of_volume(name, "recursive read-only mounts of the node's paths are not supported")
    source = volume.path
    if part := _part(asked, variables):
        target = volume.parts / f"{_short(container.get('name') or '')}-{number}"
        try:
            source = _mount_part(volume, part, target)
        except OSError as error:
            raise of_volume(name, _told(part, error)) from error
    return BindMount(
        source=str(source),
        destination=_destination(asked),
        read_only=volume.read_only or bool(asked.get("readOnly")),
        propagation=_propagation(asked, volume),
    )


def _part(asked: Object, variables: Mapping[str, str]) -> str:
    """The part of the volume that is mounted; empty: all of it."""
    part = asked.get("subPath") or expand(asked.get("subPathExpr") or "", _Known(variables))
    parts = PurePosixPath(part).parts
    if part.startswith("/") or ".." in parts or "\0" in part:
        raise VolumeFailure(f"subPath {part!r} is not a path inside of the volume")
    return "/".join(parts)


class _Known(dict[str, str]):
    def get(self, name: str, *_: object) -> str:
        """A path with a part that is missing would be another path."""
        if name not in self:
            raise VolumeFailure(f"failed to expand subPathExpr: variable {name} is not set")
        return self[name]


def _destination(asked: Object) -> str:
    path = asked.get("mountPath") or ""
    return path if path.startswith("/") else f"/{path}"


def _propagation(asked: Object, volume: VolumePath) -> str:
    """Only mounts of the node itself can pass through a volume, so only there it means anything."""
    message = _PROPAGATION.get(asked.get("mountPropagation"), "rprivate")
    return message if volume.is_shared_with_node else "rprivate"


def _mount_part(volume: VolumePath, part: str, target: Path) -> Path:
    mount_calls.unmount_all(target)
    top = os.open(volume.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = _opened(top, part, is_made=not volume.read_only)
        try:
            _make_place(target, stat.S_ISDIR(os.fstat(found).st_mode))
            mount_calls.bind(found, target)
        finally:
            os.close(found)
    finally:
        os.close(top)
    return target


def _opened(top: int, part: str, is_made: bool) -> int:
    """The part, as a folder like the volume itself where it is not there yet."""
    try:
        return mount_calls.open_beneath(top, part, os.O_PATH)
    except OSError as error:
        if error.errno != errno.ENOENT or not is_made:
            raise
    here = os.dup(top)
    try:
        for name in part.split("/"):
            below = _below(here, name, os.fstat(top))
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def _below(parent: int, name: str, like: os.stat_result) -> int:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return mount_calls.open_beneath(parent, name, os.O_RDONLY | os.O_DIRECTORY)
    made = mount_calls.open_beneath(parent, name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(made, like.st_uid, like.st_gid)
        os.fchmod(made, stat.S_IMODE(like.st_mode))
    except BaseException:
        os.close(made)
        raise
    return made


def _make_place(target: Path, is_folder: bool) -> None:
    target.parent.mkdir(exist_ok=True, mode=0o711)
    if target.exists() and target.is_dir() != is_folder:
        target.rmdir() if target.is_dir() else target.unlink()
    if is_folder:
        target.mkdir(exist_ok=True)
    else:
        target.touch()


def _told(part: str, error: OSError) -> str:
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return f'failed to prepare subPath "{part}": it leads out of the volume'
    return f'failed to prepare subPath "{part}": {os.strerror(error.errno or 0)}'


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
