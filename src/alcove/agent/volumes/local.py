"""Local persistent volumes of this node: each is a file with a file system of exactly the requested size.

    <directory>/<id>.json    the volume's record; written first, removed last
    <directory>/<id>/image   the file system image; all its space is allocated when it is created
    <directory>/<id>/root    the mount point while pods use it; pods see the directory `data` inside

A volume is identified by tenant and uid, not by the path in its object, so a tenant reaches only its own volumes, on
whatever plane its objects are.
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
from alcove.client.keys import HOME

SIZE_BYTES_MIN = 1 << 20
FREE_PERCENT_MIN = 5
"""The part of the node's disk that volumes may not use."""
_CALL_SECONDS_MAX = 120
_CLOSED_SECONDS_MAX = 2.0
_SYS_RESOURCE = 24
_ZEROS = bytes(1 << 20)


class LocalVolume(Struct, frozen=True):
    tenant: TenantId
    name: str
    """The name of its PersistentVolume, whose uid is `uid`."""
    uid: str
    size_bytes: int
    is_made: bool = False

    @property
    def id(self) -> str:
        # The home plane's name is in it for the volumes that there are.
        whole = "\0".join((HOME, self.tenant, self.uid))
        return hashlib.sha256(whole.encode()).hexdigest()[:32]


class LocalVolumeStore:
    """All methods block on disk I/O: call them in a thread, and one at a time for each volume."""

    def __init__(self, directory: Path, checkpoint: Callable[[str], None]) -> None:
        self._directory = directory
        self._checkpoint = checkpoint
        directory.mkdir(parents=True, exist_ok=True, mode=0o711)

    def all(self) -> list[LocalVolume]:
        return [self._read(path) for path in sorted(self._directory.glob("*.json"))]

    def find(self, id: str) -> LocalVolume | None:
        try:
            return self._read(self._directory / f"{id}.json")
        except FileNotFoundError:
            return None

    def root(self, id: str) -> Path:
        """The volume's mount point."""
        return self._directory / id / "root"

    def mount(self, desired: LocalVolume) -> Path:
        """Mounts the volume, which is created or grown if necessary, and returns the directory for pods.
        Idempotent. Raises VolumeFailure."""
        existing = self.find(desired.id)
        if existing is None:
            existing = desired
            self._write(existing)
            self._checkpoint("note volume")
        home = self._directory / existing.id
        if not existing.is_made:
            existing = self._create(existing, home)
        elif not (home / "image").exists():
            raise VolumeFailure(f'the data of volume "{existing.name}" is missing on this node')
        if desired.size_bytes > existing.size_bytes:
            self.grow(existing, desired.size_bytes)
        root = self.root(existing.id)
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
        """Unmounts lazily: processes that have files open keep them. Mounting again gives the same file
        system. Idempotent."""
        mount_calls.unmount_all(self.root(id))

    def grow(self, volume: LocalVolume, size_bytes: int) -> None:
        """Grows the volume, online if this process has CAP_SYS_RESOURCE, otherwise when it is next
        mounted."""
        image = self._directory / volume.id / "image"
        if not os.path.ismount(self.root(volume.id)):
            _wait_until_closed(image)
        device = _loop_device(image)
        if device is not None and not _can_resize_online():
            return
        self._allocate(image, size_bytes, os.O_RDWR)
        self._checkpoint("take more space")
        if device is not None:
            _run("losetup", "--set-capacity", device)
            _run("resize2fs", device)
        else:
            _run("e2fsck", "-f", "-p", image, ok_codes=(0, 1))
            _run("resize2fs", image)
        self._checkpoint("grow file system")
        self._write(structs.replace(volume, size_bytes=size_bytes))

    def wipe(self, volume: LocalVolume) -> bool:
        """Overwrites all written data, then deletes the volume. False while the volume is still open.
        Idempotent, also after an earlier call was interrupted."""
        home = self._directory / volume.id
        image = home / "image"
        self.unmount(volume.id)
        _wait_until_closed(image)
        if _loop_device(image) is not None:
            return False
        if image.exists():
            _overwrite(image)
            self._checkpoint("overwrite volume")
        file_trees.remove(home)
        self._checkpoint("remove volume")
        (self._directory / f"{volume.id}.json").unlink(missing_ok=True)
        return True

    def _create(self, volume: LocalVolume, home: Path) -> LocalVolume:
        home.mkdir(exist_ok=True, mode=0o711)
        draft = home / "draft"
        draft.unlink(missing_ok=True)
        try:
            self._allocate(draft, volume.size_bytes, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self._checkpoint("take space")
            # The allocated space reads as zeros, so mkfs need not write zeros, now or later.
            options = ("-E", "nodiscard,assume_storage_prezeroed=1", "-m", "0")
            _run("mkfs.ext4", "-q", "-F", *options, draft)
        except (VolumeFailure, OSError):
            draft.unlink(missing_ok=True)
            raise
        self._checkpoint("make file system")
        draft.rename(home / "image")
        created = structs.replace(volume, is_made=True)
        self._write(created)
        self._checkpoint("note that volume is made")
        return created

    def _allocate(self, path: Path, size_bytes: int, flags: int) -> None:
        """Allocates the whole size now, so that a volume never runs out of disk space because of other
        writers."""
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            disk, present = os.fstatvfs(descriptor), os.fstat(descriptor).st_size
            reserve = disk.f_blocks * disk.f_frsize * FREE_PERCENT_MIN // 100
            free = disk.f_bavail * disk.f_frsize - reserve
            if size_bytes - present > free:
                raise VolumeFailure(
                    f"no space left on device: {size_bytes} bytes requested, {max(free, 0)} available for volumes"
                )
            os.posix_fallocate(descriptor, 0, size_bytes)
        finally:
            os.close(descriptor)

    def _read(self, path: Path) -> LocalVolume:
        return msgspec.json.decode(path.read_bytes(), type=LocalVolume)

    def _write(self, volume: LocalVolume) -> None:
        path = self._directory / f"{volume.id}.json"
        draft = path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(volume))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)


def _overwrite(image: Path) -> None:
    """Overwrites the parts that were ever written with zeros; the rest of the file has no data."""
    descriptor = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        end = os.fstat(descriptor).st_size
        start = 0
        while start < end:
            try:
                start = os.lseek(descriptor, start, os.SEEK_DATA)
            except OSError:  # There is no data after this offset.
                break
            stop = os.lseek(descriptor, start, os.SEEK_HOLE)
            while start < stop:
                start += os.pwrite(descriptor, _ZEROS[: stop - start], start)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _loop_device(image: Path) -> Path | None:
    """The loop device that is backed by the file; None if there is none."""
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if backing.read_text().rstrip("\n") == str(image):
                return Path("/dev", backing.parts[3])
        except OSError:
            continue  # The device was released meanwhile.
    return None


def _wait_until_closed(image: Path) -> None:
    """Waits for the kernel, which releases a loop device shortly after its file system was unmounted."""
    deadline = time.monotonic() + _CLOSED_SECONDS_MAX
    while _loop_device(image) is not None and time.monotonic() < deadline:
        time.sleep(0.02)


def _can_resize_online() -> bool:
    """Whether this process has CAP_SYS_RESOURCE, which growing a mounted file system requires."""
    capabilities = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    return bool(int(capabilities, 16) >> _SYS_RESOURCE & 1)


def _run(*command: str | Path, ok_codes: tuple[int, ...] = (0,)) -> None:
    arguments = [str(argument) for argument in command]
    try:
        completed = subprocess.run(arguments, capture_output=True, text=True, timeout=_CALL_SECONDS_MAX)
    except FileNotFoundError as error:
        raise VolumeFailure(
            f"{arguments[0]} is not installed; it is required for persistent volumes"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise VolumeFailure(f"{arguments[0]} timed out after {_CALL_SECONDS_MAX} seconds") from error
    if completed.returncode not in ok_codes:
        lines = (completed.stderr.strip() or completed.stdout.strip()).splitlines() or ["unknown error"]
        output = next((line for line in lines if line.startswith(f"{arguments[0]}: ")), lines[-1])
        for path in (argument for argument in command if isinstance(argument, Path)):
            # Tenants see this message: remove paths of the node.
            output = output.replace(str(path), path.name)
        raise VolumeFailure(f"{arguments[0]}: {output.removeprefix(f'{arguments[0]}: ')}")
