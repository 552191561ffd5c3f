"""System calls for mounts and paths that Python does not provide, each a plain function.

Paths that a container can write to are opened with `openat2`, which refuses to leave the directory it starts
in, even if links are swapped meanwhile. The result is mounted by its descriptor, so that it cannot be
exchanged before that.
"""

import ctypes
import errno
import os
import re
from pathlib import Path
from struct import pack

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
_MNT_DETACH = 2
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_OPENAT2, _SYS_MOUNT_SETATTR = 428, 429, 437, 442
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NODEV, _MOUNT_ATTR_IDMAP = 0x1, 0x4, 0x100000
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_TRIES_MAX = 32
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""How the kernel escapes white space in paths."""
_libc = ctypes.CDLL(None, use_errno=True)


class MountFailed(OSError):
    pass


def mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    """Raises MountFailed."""
    if _libc.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode()):
        raise _failed(f"mount {target}")


def unmount(target: Path) -> bool:
    """Returns whether something was mounted there: a bind mount looks like any directory before."""
    if not _libc.umount2(os.fsencode(target), _MNT_DETACH):
        return True
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOENT):
        raise _failed(f"unmount {target}")
    return False


def unmount_all(target: Path) -> None:
    """Unmounts everything that is mounted there, one over the other."""
    while unmount(target):
        pass


def mounts_below(directory: Path) -> list[Path]:
    """Mount points at or below the directory, deepest first."""
    paths = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        path = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), line.split(" ")[4]))
        if path.is_relative_to(directory):
            paths.append(path)
    return sorted(paths, key=lambda path: len(path.parts), reverse=True)


def bind(descriptor: int, target: Path, *, nodev: bool = False, read_only: bool = False) -> None:
    """Bind mounts what the descriptor refers to at `target`, without mounts inside it. `nodev` disables
    device nodes. Raises MountFailed."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH
    tree = _call("clone a mount", _SYS_OPEN_TREE, descriptor, b"", flags)
    try:
        attributes = nodev * _MOUNT_ATTR_NODEV | read_only * _MOUNT_ATTR_RDONLY
        if attributes:
            _set_attributes(tree, attributes)
        _move(tree, target)
    finally:
        os.close(tree)


def has_devices(directory: Path) -> bool:
    """Whether device nodes can be used there: it is not mounted with nodev."""
    return not os.statvfs(directory).f_flag & os.ST_NODEV


def bind_with_ids_of(user_namespace: str, source: Path, target: Path) -> None:
    """Mounts `source` at `target`, read-only and idmapped: ids on disk are ids of the user namespace."""
    namespace = os.open(user_namespace, os.O_RDONLY | os.O_CLOEXEC)
    tree = -1
    try:
        flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
        tree = _call("clone a mount", _SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), flags)
        _set_attributes(tree, _MOUNT_ATTR_IDMAP | _MOUNT_ATTR_RDONLY, namespace)
        _move(tree, target)
    finally:
        os.close(namespace)
        if tree >= 0:
            os.close(tree)


def open_beneath(directory: int, path: str, flags: int) -> int:
    """A descriptor of `path` in the directory. Raises OSError (EXDEV) if a link leads out of the directory,
    into another file system, or through a magic link of /proc."""
    return _openat2(directory, path, flags, _BENEATH | _NO_MAGICLINKS | _NO_XDEV)


def open_without_links(directory: int, path: str, flags: int) -> int:
    """A descriptor of `path` in the directory. Raises OSError (ELOOP, EXDEV) if a part of the path is a link
    or leads into another file system."""
    return _openat2(directory, path, flags, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS | _NO_XDEV)


def _openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    how = pack("QQQ", flags | os.O_CLOEXEC, 0, resolve)
    for _ in range(_TRIES_MAX):
        try:
            return _call(f"open {path}", _SYS_OPENAT2, directory, os.fsencode(path or "."), how, len(how))
        except BlockingIOError:
            continue  # A directory on the path was renamed meanwhile: try again.
    raise OSError(errno.EAGAIN, f"open {path}: the path keeps changing")


def _set_attributes(tree: int, attributes: int, user_namespace: int = 0) -> None:
    struct = pack("QQQQ", attributes, 0, 0, user_namespace)
    _call("change a mount", _SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, struct, len(struct))


def _move(tree: int, target: Path) -> None:
    _call("mount", _SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)


def _call(description: str, number: int, *arguments: int | bytes) -> int:
    values = (each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments)
    result = int(_libc.syscall(number, *values))
    if result < 0:
        raise _failed(description)
    return result


def _failed(description: str) -> OSError:
    """The error of the last system call."""
    number = ctypes.get_errno()
    if number == errno.EAGAIN:
        return BlockingIOError(number, description)
    return MountFailed(number, f"{description}: {os.strerror(number)}")
