"""Network namespaces: open, make, enter, remove. They are named in /run/netns, as `ip netns` has it.

Entering acts on the calling thread only, and only between the two ends of the `with`; sockets opened
inside stay there for good.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alcove.dataplane.errors import KernelRefused

FOLDER = Path("/run/netns")
CLONE_NEWNET = 0x40000000
MS_BIND, MS_SHARED, MS_REC = 0x1000, 1 << 20, 0x4000
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result:
        raise KernelRefused(what, ctypes.get_errno())


def _own() -> int:
    return os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def inside(namespace: int) -> Iterator[None]:
    """The calling thread in the namespace of that descriptor. Nothing inside may await or yield."""
    home = _own()
    try:
        _check(_libc.setns(namespace, CLONE_NEWNET), "enter network namespace")
        try:
            yield
        finally:
            _check(_libc.setns(home, CLONE_NEWNET), "leave network namespace")
    finally:
        os.close(home)


def path_of(name: str) -> Path:
    return FOLDER / name


def names(prefix: str) -> list[str]:
    if not FOLDER.is_dir():
        return []
    return sorted(entry.name for entry in FOLDER.iterdir() if entry.name.startswith(prefix))


def _is_namespace(path: Path) -> bool:
    """A name whose namespace was never mounted is left by a kill between the two steps of making it."""
    try:
        return path.stat().st_dev == Path("/proc/self/ns/net").stat().st_dev
    except FileNotFoundError:
        return False


def open_named(name: str) -> int | None:
    """A descriptor of the namespace; None: there is none."""
    path = path_of(name)
    if not _is_namespace(path):
        return None
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def make(name: str) -> int:
    """A descriptor of the namespace of that name, made if it is missing. Its loopback is up."""
    found = open_named(name)
    if found is not None:
        return found
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = path_of(name)
    path.touch()
    home = _own()
    try:
        _check(_libc.unshare(CLONE_NEWNET), "make network namespace")
        try:
            made = _own()
            source = f"/proc/self/task/{threading.get_native_id()}/ns/net".encode()
            _check(_libc.mount(source, os.fsencode(path), b"none", MS_BIND, None), f"name namespace {name}")
        finally:
            _check(_libc.setns(home, CLONE_NEWNET), "leave network namespace")
    finally:
        os.close(home)
    return made


def remove(name: str) -> None:
    """Idempotent. The namespace ends when nothing holds it any more."""
    path = path_of(name)
    if _is_namespace(path):
        _check(_libc.umount2(os.fsencode(path), MNT_DETACH), f"unmount namespace {name}")
    path.unlink(missing_ok=True)


def mount_bpf(path: Path) -> None:
    """A BPF file system at `path`, unless there is one."""
    path.mkdir(parents=True, exist_ok=True)
    with Path("/proc/self/mounts").open() as mounts:
        for line in mounts:
            fields = line.split()
            if fields[1] == str(path) and fields[2] == "bpf":
                return
    _check(_libc.mount(b"bpf", os.fsencode(path), b"bpf", 0, None), f"mount a BPF file system at {path}")


def unmount_bpf(path: Path) -> None:
    """Idempotent. What is pinned there ends with the last user of the file system."""
    _libc.umount2(os.fsencode(path), MNT_DETACH)
    with suppress(FileNotFoundError):
        path.rmdir()
