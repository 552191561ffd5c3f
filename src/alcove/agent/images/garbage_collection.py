"""Image garbage collection: images are removed when disk usage reaches HIGH_PERCENT, until it is
LOW_PERCENT."""

import os
from collections.abc import Collection

from msgspec import Struct

from alcove.agent.images.store import ImageStore

HIGH_PERCENT, LOW_PERCENT = 85, 80


class DiskUsage(Struct, frozen=True):
    size_bytes: int
    used_bytes: int


def bytes_max(disk: DiskUsage, images_bytes: int, high: int = HIGH_PERCENT, low: int = LOW_PERCENT) -> int:
    """How much all images together may use: what they use now while the disk is below `high` percent,
    otherwise as much as brings it down to `low` percent."""
    if disk.used_bytes * 100 < disk.size_bytes * high:
        return images_bytes
    return max(0, images_bytes - (disk.used_bytes - disk.size_bytes * low // 100))


async def collect(store: ImageStore, in_use: Collection[str]) -> list[str]:
    """Removes unnamed images, and others as needed to free disk space. Returns the removed digests. Called
    periodically."""
    images_bytes = sum(image.size_bytes for image in store.all())
    return await store.collect(in_use, bytes_max(_disk(store), images_bytes))


def _disk(store: ImageStore) -> DiskUsage:
    stat = os.statvfs(store.directory)
    size = stat.f_blocks * stat.f_frsize
    return DiskUsage(size, size - stat.f_bavail * stat.f_frsize)
