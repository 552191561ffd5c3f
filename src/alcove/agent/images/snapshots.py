"""A container's root file system: an overlayfs of the read-only image and a writable layer of the container.

<directory>/<id>/upper   the container's writable layer
<directory>/<id>/root    the mounted overlay: the container's root directory
"""

import os
from pathlib import Path

from alcove.agent import file_trees
from alcove.agent.mount_calls import MS_NODEV, MountFailed, bind_with_ids_of, mount, unmount, unmount_all

__all__ = ["MountFailed", "OverlaySnapshots", "unmount"]


class OverlaySnapshots:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o711)

    def mount(self, id: str, lower: Path, user_namespace: str = "") -> Path:
        """Mounts the root directory of container `id` over the image's files. Idempotent.

        With the path of a user namespace, ownership of the image's files is mapped to that namespace's users.
        """
        home = self._directory / id
        root, upper = home / "root", home / "upper"
        for name in ("upper", "work", "root"):
            (home / name).mkdir(parents=True, exist_ok=True)
        home.chmod(0o711)  # Users other than root must be able to reach `root`, but not to list its parents.
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
        """Unmounts the container's root and deletes its writable layer. Idempotent."""
        home = self._directory / id
        for name in ("root", "lower"):
            unmount_all(home / name)
        file_trees.remove(home)

    def remove_all(self, pod: str) -> None:
        """Removes those of all containers of a pod, by its directory name: also of one that was never created, because the agent
        was killed before. Idempotent."""
        for id in self.ids():
            if id.partition(".")[0] == pod:
                self.remove(id)

    def ids(self) -> list[str]:
        return sorted(entry.name for entry in self._directory.iterdir())

    def layers(self) -> dict[str, list[tuple[str, Path]]]:
        """The writable layers of all containers: (container, path), by the directory name of their pod, which
        ids begin with. The container of a sandbox is ""."""
        layers: dict[str, list[tuple[str, Path]]] = {}
        for id in self.ids():
            pod, _, rest = id.partition(".")
            layers.setdefault(pod, []).append((rest.rpartition(".")[0], self._directory / id / "upper"))
        return layers


def _with_ids_of(user_namespace: str, source: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    unmount_all(target)  # Left by an agent that was stopped before it mounted the overlay.
    bind_with_ids_of(user_namespace, source, target)
    return target
