"""Persistent volumes of this node: a file each, with a file system of exactly the size that was claimed.

    <folder>/<id>.json    what the volume is; written first, removed last
    <folder>/<id>/image   the file system; all its space is taken from the disk when it is made
    <folder>/<id>/root    where it is mounted, while pods use it; they see `data` inside

A volume is known by its plane, tenant and uid: whatever path its object names, a tenant reaches only its own.
"""

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from alcove.agent import file_trees, mount_calls
from alcove.agent.volumes.errors import VolumeFailure
from alcove.api.ids import TenantId
from alcove.client.keys import ObjectKey, PlaneId

SIZE_BYTES_MIN = 1 << 20
FREE_PERCENT_MIN = 5
"""What volumes leave of the node's disk."""
_CALL_SECONDS_MAX = 120
_CLOSED_SECONDS_MAX = 2.0
_SYS_RESOURCE = 24
_ZEROS = bytes(1 << 20)


class LocalVolume(Struct, frozen=True):
    plane: PlaneId
    tenant: TenantId
    name: str
    """Of its PersistentVolume, which has the uid below."""
    uid: str
    size_bytes: int
    is_made: bool = False

    @property
    def id(self) -> str:
        whole = "\0".join((self.plane, self.tenant, self.uid))
        return hashlib.sha256(whole.encode()).hexdigest()[:32]

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.plane, self.tenant, "", self.name)


class LocalVolumeStore:
    """All calls wait for the disk: from an event loop they belong in a thread, one at a time for a volume."""

    def __init__(self, folder: Path, checkpoint: Callable[[str], None]) -> None:
        self._folder = folder
        self._checkpoint = checkpoint
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)

    def all(self) -> list[LocalVolume]:
        return [self._read(path) for path in sorted(self._folder.glob("*.json"))]

    def find(self, id: str) -> LocalVolume | None:
        try:
            return self._read(self._folder / f"{id}.json")
        except FileNotFoundError:
            return None

    def root(self, id: str) -> Path:
        """Where it is mounted, if it is."""
        return self._folder / id / "root"

    def mount(self, wanted: LocalVolume) -> Path:
        """Where the volume's files are; it is made, or grown to its size, where it has to be. Idempotent."""
        known = self.find(wanted.id)
        if known is None:
            known = wanted
            self._write(known)
            self._checkpoint("note volume")
        home = self._folder / known.id
        if not known.is_made:
            known = self._make(known, home)
        elif not (home / "image").exists():
            raise VolumeFailure(f'the data of volume "{known.name}" has vanished from this node')
        if wanted.size_bytes > known.size_bytes:
            self.grow(known, wanted.size_bytes)
        root = self.root(known.id)
        root.mkdir(exist_ok=True, mode=0o755)
        if not os.path.ismount(root):
            _run("mount", "-t", "ext4", "-o", "loop,nodev,errors=remount-ro", home / "image", root)
            self._checkpoint("mount volume")
        data = root / "data"
        if not data.exists():
            data.mkdir()
            data.chmod(0o777)
        return data

    def unmount(self, id: str) -> None:
        """Idempotent. What still has it open keeps it; mounted again meanwhile, it is the same file system."""
        mount_calls.unmount_all(self.root(id))

    def grow(self, volume: LocalVolume, size_bytes: int) -> None:
        """Also while it is used, if this process may; else it grows when it is next mounted."""
        image = self._folder / volume.id / "image"
        if not os.path.ismount(self.root(volume.id)):
            _wait_until_closed(image)
        device = _device_of(image)
        if device is not None and not _may_resize():
            return
        self._take_space(image, size_bytes, os.O_RDWR)
        self._checkpoint("take more space")
        if device is not None:
            _run("losetup", "--set-capacity", device)
            _run("resize2fs", device)
        else:
            _run("e2fsck", "-f", "-p", image, good=(0, 1))
            _run("resize2fs", image)
        self._checkpoint("grow file system")
        self._write(structs.replace(volume, size_bytes=size_bytes))

    def wipe(self, volume: LocalVolume) -> bool:
        """Overwrites all that was written, then frees it; False while something still has it open. Safe to
        repeat, and from any point on where another was stopped."""
        home = self._folder / volume.id
        image = home / "image"
        self.unmount(volume.id)
        _wait_until_closed(image)
        if _device_of(image) is not None:
            return False
        if image.exists():
            _overwrite(image)
            self._checkpoint("overwrite volume")
        file_trees.remove(home)
        self._checkpoint("remove volume")
        (self._folder / f"{volume.id}.json").unlink(missing_ok=True)
        return True

    def _make(self, volume: LocalVolume, home: Path) -> LocalVolume:
        home.mkdir(exist_ok=True, mode=0o711)
        draft = home / "draft"
        draft.unlink(missing_ok=True)
        try:
            self._take_space(draft, volume.size_bytes, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self._checkpoint("take space")
            # All of it reads as zeros already: nothing has to be written for it, now or later.
            options = ("-E", "nodiscard,assume_storage_prezeroed=1", "-m", "0")
            _run("mkfs.ext4", "-q", "-F", *options, draft)
        except (VolumeFailure, OSError):
            draft.unlink(missing_ok=True)
            raise
        self._checkpoint("make file system")
        draft.rename(home / "image")
        made = structs.replace(volume, is_made=True)
        self._write(made)
        self._checkpoint("note that volume is made")
        return made

    def _take_space(self, path: Path, size_bytes: int, flags: int) -> None:
        """All of it, now: a volume that is there has its size, whatever others write."""
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            disk, present = os.fstatvfs(descriptor), os.fstat(descriptor).st_size
            reserve = disk.f_blocks * disk.f_frsize * FREE_PERCENT_MIN // 100
            free = disk.f_bavail * disk.f_frsize - reserve
            if size_bytes - present > free:
                raise VolumeFailure(
                    f"no space left on device: the node has {max(free, 0)} bytes for volumes, not {size_bytes}"
                )
            os.posix_fallocate(descriptor, 0, size_bytes)
        finally:
            os.close(descriptor)

    def _read(self, path: Path) -> LocalVolume:
        return msgspec.json.decode(path.read_bytes(), type=LocalVolume)

    def _write(self, volume: LocalVolume) -> None:
        path = self._folder / f"{volume.id}.json"
        draft = path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(volume))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)


def _overwrite(image: Path) -> None:
    """Only what was ever written: the rest of the file was never anybody's."""
    descriptor = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        end = os.fstat(descriptor).st_size
        start = 0
        while start < end:
            try:
                start = os.lseek(descriptor, start, os.SEEK_DATA)
            except OSError:  # Nothing but holes from here on.
                break
            stop = os.lseek(descriptor, start, os.SEEK_HOLE)
            while start < stop:
                start += os.pwrite(descriptor, _ZEROS[: stop - start], start)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _device_of(image: Path) -> Path | None:
    """The loop device that has the file open."""
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if backing.read_text().rstrip("\n") == str(image):
                return Path("/dev", backing.parts[3])
        except OSError:
            continue  # Let go while we looked.
    return None


def _wait_until_closed(image: Path) -> None:
    """The kernel lets go of a device some moments after its file system was unmounted."""
    deadline = time.monotonic() + _CLOSED_SECONDS_MAX
    while _device_of(image) is not None and time.monotonic() < deadline:
        time.sleep(0.02)


def _may_resize() -> bool:
    """The kernel lets file systems that are mounted grow for who has CAP_SYS_RESOURCE."""
    message = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    return bool(int(message, 16) >> _SYS_RESOURCE & 1)


def _run(*command: str | Path, good: tuple[int, ...] = (0,)) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_CALL_SECONDS_MAX)
    except FileNotFoundError as error:
        raise VolumeFailure(f"{words[0]} is not installed: persistent volumes need it") from error
    except subprocess.TimeoutExpired as error:
        raise VolumeFailure(f"{words[0]} did not end within {_CALL_SECONDS_MAX} seconds") from error
    if done.returncode not in good:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no reason given"]
        said = next((line for line in lines if line.startswith(f"{words[0]}: ")), lines[-1])
        for path in (word for word in command if isinstance(word, Path)):
            said = said.replace(
                str(path), path.name
            )  # Tenants read this: where it is, is the node's business.
        raise VolumeFailure(f"{words[0]}: {said.removeprefix(f'{words[0]}: ')}")
