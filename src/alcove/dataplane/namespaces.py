"""Network namespaces: open, create, enter, remove. Their names are in /run/netns, as with `ip netns`.

Entering affects the calling thread only, and only inside the `with` block; sockets opened there stay in the
namespace.
"""

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from alcove.dataplane.errors import KernelRefused

FOLDER = Path("/run/netns")
CLONE_NEWNET = 0x40000000
MS_BIND = 0x1000
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, description: str) -> None:
    if result:
        raise KernelRefused(description, ctypes.get_errno())


def _open_current() -> int:
    return os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def inside(namespace: int) -> Iterator[None]:
    """Runs the block in the namespace of the descriptor. The block must not await or yield."""
    previous = _open_current()
    try:
        _check(_libc.setns(namespace, CLONE_NEWNET), "enter network namespace")
        try:
            yield
        finally:
            _check(_libc.setns(previous, CLONE_NEWNET), "leave network namespace")
    finally:
        os.close(previous)


def path_of(name: str) -> Path:
    return FOLDER / name


def names(prefix: str) -> list[str]:
    if not FOLDER.is_dir():
        return []
    return sorted(entry.name for entry in FOLDER.iterdir() if entry.name.startswith(prefix))


def _is_namespace(path: Path) -> bool:
    """Whether the namespace is mounted: a kill while it was created may have left the file only."""
    try:
        return path.stat().st_dev == Path("/proc/self/ns/net").stat().st_dev
    except FileNotFoundError:
        return False


def open_named(name: str) -> int | None:
    """A descriptor of the namespace; None if it does not exist."""
    path = path_of(name)
    if not _is_namespace(path):
        return None
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def make(name: str) -> int:
    """A descriptor of the namespace with that name, which is created if it is missing."""
    existing = open_named(name)
    if existing is not None:
        return existing
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = path_of(name)
    path.touch()
    previous = _open_current()
    try:
        _check(_libc.unshare(CLONE_NEWNET), "create network namespace")
        try:
            created = _open_current()
            source = f"/proc/self/task/{threading.get_native_id()}/ns/net".encode()
            _check(_libc.mount(source, os.fsencode(path), b"none", MS_BIND, None), f"name namespace {name}")
        finally:
            _check(_libc.setns(previous, CLONE_NEWNET), "leave network namespace")
    finally:
        os.close(previous)
    return created


def make_unnamed() -> int:
    """A descriptor of a new namespace, which exists as long as the descriptor or a process in it. Its loopback
    device is down."""
    previous = _open_current()
    try:
        _check(_libc.unshare(CLONE_NEWNET), "create network namespace")
        try:
            return _open_current()
        finally:
            _check(_libc.setns(previous, CLONE_NEWNET), "leave network namespace")
    finally:
        os.close(previous)


def remove(name: str) -> None:
    """Removes the name; the kernel destroys the namespace when it is not used any more. Idempotent."""
    path = path_of(name)
    if _is_namespace(path):
        _check(_libc.umount2(os.fsencode(path), MNT_DETACH), f"unmount namespace {name}")
    path.unlink(missing_ok=True)


def mount_bpf(path: Path) -> None:
    """Mounts a BPF file system at `path`, if there is none."""
    path.mkdir(parents=True, exist_ok=True)
    with Path("/proc/self/mounts").open() as mounts:
        for line in mounts:
            fields = line.split()
            if fields[1] == str(path) and fields[2] == "bpf":
                return
    _check(_libc.mount(b"bpf", os.fsencode(path), b"bpf", 0, None), f"mount a BPF file system at {path}")


def set_sysctls(namespace: str, settings: Mapping[str, str]) -> None:
    """Sets network sysctls in the namespace at that path, from the host: root in a user namespace may not set
    them. Raises OSError."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # /proc/sys/net shows the network namespace of the reading thread.
        with inside(descriptor):
            for name, value in settings.items():
                _sysctl_path(name).write_text(value)
    finally:
        os.close(descriptor)


def _sysctl_path(name: str) -> Path:
    """Names use dots as separators, or slashes if a component contains dots."""
    return Path("/proc/sys", name if "/" in name else name.replace(".", "/"))
