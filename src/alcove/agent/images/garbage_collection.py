"""When images are removed: only when the disk is nearly full, and then until it is not."""

import os
from collections.abc import Collection

from msgspec import Struct

from alcove.agent.images.store import ImageStore

HIGH_PERCENT, LOW_PERCENT = 85, 80


class DiskUsage(Struct, frozen=True):
    size_bytes: int
    used_bytes: int


def bytes_max(disk: DiskUsage, images_bytes: int, high: int = HIGH_PERCENT, low: int = LOW_PERCENT) -> int:
    """What images may take together: all they do while the disk is below `high`, else what brings it to `low`."""
    if disk.used_bytes * 100 < disk.size_bytes * high:
        return images_bytes
    return max(0, images_bytes - (disk.used_bytes - disk.size_bytes * low // 100))


async def collect(store: ImageStore, in_use: Collection[str]) -> list[str]:
    """Removes what the disk has no room for, and what nobody names. To be called now and then."""
    images_bytes = sum(image.size_bytes for image in store.all())
    return await store.collect(in_use, bytes_max(_disk(store), images_bytes))


def _disk(store: ImageStore) -> DiskUsage:
    found = os.statvfs(store.folder)
    size = found.f_blocks * found.f_frsize
    return DiskUsage(size, size - found.f_bavail * found.f_frsize)
