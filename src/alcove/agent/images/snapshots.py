"""A container's own file system: the image below, read only, and a layer of its own above it (overlayfs).

<folder>/<id>/upper   what the container wrote
<folder>/<id>/root    both together: its root directory
"""

import os
from pathlib import Path

from alcove.agent import file_trees
from alcove.agent.mount_calls import MS_NODEV, MountFailed, bind_with_ids_of, mount, unmount, unmount_all

__all__ = ["MountFailed", "OverlaySnapshots", "unmount"]


class OverlaySnapshots:
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
        mount("overlay", root, "overlay", MS_NODEV, options)
        return root

    def remove(self, id: str) -> None:
        """Idempotent. Whatever the container wrote is gone."""
        home = self._folder / id
        for name in ("root", "lower"):
            unmount_all(home / name)
        file_trees.remove(home)

    def ids(self) -> list[str]:
        return sorted(entry.name for entry in self._folder.iterdir())

    def written_bytes(self, id: str) -> int:
        """What the container wrote takes this much of the disk."""
        return file_trees.used_bytes([self._folder / id / "upper"])[0]


def _with_ids_of(user_namespace: str, source: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    unmount_all(target)  # Left by one who was stopped before mounting the rest.
    bind_with_ids_of(user_namespace, source, target)
    return target
