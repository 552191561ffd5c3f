"""A container's own file system: the image below, read only, and a layer of its own above it (overlayfs).

<folder>/<id>/upper   what the container wrote
<folder>/<id>/root    both together: its root directory
"""

import ctypes
import errno
import os
import shutil
from pathlib import Path

MNT_DETACH = 2
_MS_NODEV = 4
_libc = ctypes.CDLL(None, use_errno=True)


class MountFailed(OSError):
    pass


class Snapshots:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)

    def mount(self, id: str, lower: Path) -> Path:
        """The root directory of container `id` over the image's files. Idempotent."""
        home = self._folder / id
        root = home / "root"
        for name in ("upper", "work", "root"):
            (home / name).mkdir(parents=True, exist_ok=True)
        home.chmod(0o711)  # Users other than root must get to `root`, but list nothing on the way.
        (home / "upper").chmod(0o755)
        if not os.path.ismount(root):
            options = f"lowerdir={lower},upperdir={home / 'upper'},workdir={home / 'work'}"
            _mount("overlay", root, "overlay", _MS_NODEV, options)
        return root

    def remove(self, id: str) -> None:
        """Idempotent. Whatever the container wrote is gone."""
        home = self._folder / id
        while os.path.ismount(home / "root"):
            unmount(home / "root")
        shutil.rmtree(home, ignore_errors=True)

    def ids(self) -> list[str]:
        return sorted(entry.name for entry in self._folder.iterdir())

    def written_bytes(self, id: str) -> int:
        """What the container wrote takes this much of the disk."""
        total = 0
        for folder, _, files in os.walk(self._folder / id / "upper"):
            for name in files:
                try:
                    total += Path(folder, name).lstat().st_blocks * 512
                except FileNotFoundError:
                    continue
        return total


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    done = _libc.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode())
    if done:
        number = ctypes.get_errno()
        raise MountFailed(number, f"mount {target}: {os.strerror(number)}")


def unmount(target: Path) -> None:
    if _libc.umount2(os.fsencode(target), MNT_DETACH):
        number = ctypes.get_errno()
        if number != errno.EINVAL:  # Not mounted any more.
            raise MountFailed(number, f"unmount {target}: {os.strerror(number)}")
