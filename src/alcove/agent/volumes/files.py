"""The files of projected volumes: config maps, secrets, the pod's fields. Pure: no I/O.

Files are a mapping from relative paths to contents. Tenants choose the paths, so they are checked to stay
inside the volume.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from alcove.agent.volumes.errors import VolumeFailure
from alcove.api.objects import Object

MODE = 0o644
MODE_MAX = 0o777
PATH_LEVELS_MAX = 32
"""Names in the path of a projected file; a pod with a longer path does not start (FailedMount)."""
PAGE_BYTES = 4 << 10
INODE_BYTES = 1 << 10
"""About what the kernel needs for a file, a directory or a link in a tmpfs, beside its content."""


class VolumeFile(Struct, frozen=True):
    content: bytes
    mode: int
    uid: int = 0


Files = dict[str, VolumeFile]


def from_config_map(config_map: Object | None, source: Object, default_mode: int) -> Files:
    """`source` is the volume source, with name, items and optional. Raises VolumeFailure."""
    name = source.get("name") or ""
    if config_map is None:
        _check_optional(source, f'configmap "{name}" not found')
        return {}
    content = {key: text.encode() for key, text in (config_map.get("data") or {}).items()}
    content |= _decoded(config_map.get("binaryData") or {}, f"configmap {name}")
    return _select(content, source, default_mode, "configmap references non-existent config key")


def from_secret(secret: Object | None, source: Object, default_mode: int) -> Files:
    name = source.get("secretName") or source.get("name") or ""
    if secret is None:
        _check_optional(source, f'secret "{name}" not found')
        return {}
    content = _decoded(secret.get("data") or {}, f"secret {name}")
    return _select(content, source, default_mode, "references non-existent secret key")


def file(path: str, content: bytes, mode: int, uid: int = 0) -> Files:
    return {checked(path): VolumeFile(content, mode & MODE_MAX, uid)}


def checked(path: str) -> str:
    """The normalized path. Raises VolumeFailure if it is not a path inside the volume."""
    parts = PurePosixPath(path).parts
    is_inside = bool(parts) and not path.startswith("/") and ".." not in parts
    # Names that begin with two dots are reserved for atomic.py.
    if not is_inside or parts[0].startswith("..") or "\0" in path:
        raise VolumeFailure(f"invalid path {path!r} in a volume")
    if len(parts) > PATH_LEVELS_MAX:
        raise VolumeFailure(f"a path in a volume has more than {PATH_LEVELS_MAX} names")
    return "/".join(parts)


def memory_bytes(files: Mapping[str, VolumeFile]) -> int:
    """What the files of a volume take of the node's memory, at most: whole pages, and inodes of the files, of the
    links to them (`atomic.py`) and of their directories."""
    pages = sum(-(-len(each.content) // PAGE_BYTES) for each in files.values())
    inodes = sum(2 + path.count("/") for path in files)
    return pages * PAGE_BYTES + inodes * INODE_BYTES


def for_group(files: Mapping[str, VolumeFile], group: int | None) -> Files:
    """The same files, readable by the pod's group."""
    if group is None:
        return dict(files)
    return {path: VolumeFile(each.content, each.mode | 0o440, each.uid) for path, each in files.items()}


def _select(content: Mapping[str, bytes], source: Object, default_mode: int, missing: str) -> Files:
    items: Sequence[Object] = source.get("items") or ()
    if not items:
        return {checked(key): VolumeFile(content[key], default_mode & MODE_MAX) for key in sorted(content)}
    files: Files = {}
    for item in items:
        key, mode = item.get("key") or "", item.get("mode")
        if key not in content:
            _check_optional(source, f"{missing}: {key}")
            continue
        files |= file(item.get("path") or "", content[key], default_mode if mode is None else mode)
    return files


def _check_optional(source: Object, message: str) -> None:
    if not source.get("optional"):
        raise VolumeFailure(message)


def _decoded(data: Mapping[str, str], description: str) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(text, validate=True) for key, text in data.items()}
    except binascii.Error as error:
        raise VolumeFailure(f"{description}: {error}") from error
