"""A container's own file system: the image below, read only, and a layer of its own above it (overlayfs).

<folder>/<id>/upper   what the container wrote
<folder>/<id>/root    both together: its root directory
"""

import ctypes
import errno
import os
from pathlib import Path
from struct import pack

from alcove.agent import trees

MNT_DETACH = 2
_MS_NODEV = 4
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH, _OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = -100, 0x1000, 1, 4
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_IDMAP = 0x1, 0x100000
_libc = ctypes.CDLL(None, use_errno=True)


class MountFailed(OSError):
    pass


class Snapshots:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)

    def mount(self, id: str, lower: Path, user_namespace: str = "") -> Path:
        """The root directory of container `id` over the image's files. Idempotent.

        With the path of a user namespace, the image's files belong to its users: root's to its root.
        """
        home = self._folder / id
        root, upper = home / "root", home / "upper"
        for name in ("upper", "work", "root"):
            (home / name).mkdir(parents=True, exist_ok=True)
        home.chmod(0o711)  # Users other than root must get to `root`, but list nothing on the way.
        upper.chmod(0o755)
        if os.path.ismount(root):
            return root
        if user_namespace:
            lower = _with_ids_of(user_namespace, lower, home / "lower")
            owner = lower.stat()
            os.chown(upper, owner.st_uid, owner.st_gid)
        options = f"lowerdir={lower},upperdir={upper},workdir={home / 'work'}"
        _mount("overlay", root, "overlay", _MS_NODEV, options)
        return root

    def remove(self, id: str) -> None:
        """Idempotent. Whatever the container wrote is gone."""
        home = self._folder / id
        for name in ("root", "lower"):
            while unmount(home / name):
                pass
        trees.remove(home)

    def ids(self) -> list[str]:
        return sorted(entry.name for entry in self._folder.iterdir())

    def written_bytes(self, id: str) -> int:
        """What the container wrote takes this much of the disk."""
        return trees.used_bytes([self._folder / id / "upper"])[0]


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    done = _libc.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode())
    if done:
        number = ctypes.get_errno()
        raise MountFailed(number, f"mount {target}: {os.strerror(number)}")


def _with_ids_of(user_namespace: str, source: Path, target: Path) -> Path:
    """`source` at `target`, where the ids on disk are ids of the user namespace."""
    target.mkdir(exist_ok=True)
    while unmount(target):  # Left by one who was stopped before mounting the rest.
        pass
    namespace = os.open(user_namespace, os.O_RDONLY | os.O_CLOEXEC)
    tree = -1
    try:
        tree = _call(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | os.O_CLOEXEC)
        attributes = pack("QQQQ", _MOUNT_ATTR_IDMAP | _MOUNT_ATTR_RDONLY, 0, 0, namespace)
        _call(_SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, len(attributes))
        _call(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(namespace)
        if tree >= 0:
            os.close(tree)
    return target


def _call(number: int, *arguments: int | bytes) -> int:
    """A system call that has no function in the C library."""
    done = int(
        _libc.syscall(
            number, *(each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments)
        )
    )
    if done < 0:
        code = ctypes.get_errno()
        raise MountFailed(code, f"mount with mapped ids: {os.strerror(code)}")
    return done


def unmount(target: Path) -> bool:
    """Whether something was mounted there. Asking first is no use: a bind mount looks like any directory."""
    if not _libc.umount2(os.fsencode(target), MNT_DETACH):
        return True
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOENT):
        raise MountFailed(number, f"unmount {target}: {os.strerror(number)}")
    return False
