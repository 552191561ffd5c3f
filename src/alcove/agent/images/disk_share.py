"""How much of the node's disk the images of one tenant may take: a quarter, and no more than is free after that.

So one tenant's images leave room for those of others, and for what pods write.
"""

import os
from pathlib import Path

from alcove.agent.file_trees import TreeUsage

TENANT_PARTS = 4
"""A tenant's images may take one of so many parts of the disk, and of its inodes."""
UNLIMITED = 1 << 62
"""The inodes of a file system that has no fixed number of them."""


def room(directory: Path, own: TreeUsage) -> TreeUsage:
    """How much a tenant whose images take `own` may add."""
    disk = os.statvfs(directory)
    free_bytes, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    files = _room(disk.f_files, disk.f_favail, own.files) if disk.f_files else UNLIMITED
    return TreeUsage(_room(size, free_bytes, own.bytes), files)


def exceeds(used: TreeUsage, limit: TreeUsage) -> bool:
    return used.is_cut or used.bytes > limit.bytes or used.files > limit.files


def _room(total: int, free: int, own: int) -> int:
    return max(min(total // TENANT_PARTS, (own + free) // 2) - own, 0)
