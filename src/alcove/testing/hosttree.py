"""The files of this machine that no pod may change, compared before and after an attack.

    before = HostTree.look(cluster)
    …
    assert before.changes(HostTree.look(cluster)) == []

Outside the cluster's directory every file counts with its type, size and time of change. Inside it only names
count, because the cluster writes there all the time, and pods' own folders are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from alcove.testing.cluster import LocalCluster
from alcove.testing.snapshot import FOLDERS

ROOTS = (*FOLDERS, "/boot", "/home", "/usr/bin", "/usr/sbin", "/var/log")
IGNORED = re.compile(
    r"^/dev/((pts|shm|char|block)/|loop\d+$)|^/run/(netns|alcove|mount|crun|runc|runsc)|^/var/cache/|^/var/lib/containers/cache/|/__pycache__|lastlog$|/\.?lock$"
)
"""What other programs of the machine change meanwhile, other tests' clusters included."""
POD_FOLDER = re.compile(
    r"/(volumes/pods/[0-9a-f]{32}|(snapshots|logs|pods|network)/[0-9a-f-]{36}[.\w-]*)(/|$)"
    r"|/runtimes/"
)
"""Folders that a node creates for one pod or container, relative to the node's directory."""
OWN_FILES = re.compile(
    r"\.(log|tmp|new|pem|kubeconfig|cache)$|/store\.db|/audit/[a-z0-9-]+\.log(\.\d+)?$|\.cache/|/(names|usage)\.(json|lock)$"
)
"""Files of the cluster that come and go."""

Signature = tuple[int, int, int, int, int]


class HostTree(Struct, frozen=True):
    files: dict[str, Signature]
    names: frozenset[str]
    """Of the cluster's own directories, outside pods' folders."""

    @classmethod
    def look(cls, cluster: LocalCluster) -> HostTree:
        files = {path: signature for root in ROOTS for path, signature in signatures(root)}
        return cls(files, frozenset(own_names(cluster.directory)))

    def changes(self, later: HostTree) -> list[str]:
        """What was made, changed or removed, with a sign each."""
        made = [f"+ {path}" for path in later.files.keys() - self.files.keys()]
        removed = [f"- {path}" for path in self.files.keys() - later.files.keys()]
        changed = [f"~ {path}" for path, found in self.files.items() if later.files.get(path, found) != found]
        own = [f"+ {path}" for path in later.names - self.names]
        return sorted(made + removed + changed + own)


def signatures(root: str) -> Iterator[tuple[str, Signature]]:
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = f"{folder}/{name}"
            if IGNORED.search(path):
                continue
            try:
                found = os.lstat(path)
            except OSError:
                continue
            is_folder = name in folders
            # A folder's time and size change with what other programs put into it.
            when, size = (
                (0, 0) if is_folder or path.startswith("/dev/") else (found.st_mtime_ns, found.st_size)
            )
            yield path, (found.st_mode, found.st_uid, found.st_gid, size, when)


def own_names(directory: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        for name in list(folders):
            if POD_FOLDER.search(f"{folder}/{name}"):
                folders.remove(name)
        for name in (*folders, *names):
            path = f"{folder}/{name}"
            if not OWN_FILES.search(path) and not POD_FOLDER.search(path):
                yield path


def traces_of(token: str, *roots: Path) -> list[str]:
    """Paths with `token` in their names below ROOTS, or below `roots`."""
    found = []
    for root in (*ROOTS, *map(str, roots)):
        for folder, folders, names in os.walk(root):
            found += [f"{folder}/{name}" for name in (*folders, *names) if token in name]
    return found
