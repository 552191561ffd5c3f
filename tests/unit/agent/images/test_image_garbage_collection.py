"""How much images may take of a disk, by a table."""

import os
import shutil
from pathlib import Path

import pytest

from alcove.agent.images.garbage_collection import DiskUsage, bytes_max, collect
from alcove.agent.images.store import ImageStore


@pytest.mark.parametrize(
    ("used", "images", "expected"),
    [(0, 0, 0), (84, 50, 50), (85, 50, 45), (100, 50, 30), (95, 5, 0), (90, 0, 0)],
)
def test_what_images_may_take(used: int, images: int, expected: int) -> None:
    assert bytes_max(DiskUsage(100, used), images) == expected


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("busybox") is None, reason="needs root and busybox")
async def test_nothing_is_removed_while_there_is_room(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    image = store.add_builtin()
    disk = os.statvfs(tmp_path)
    is_full = disk.f_bavail * 100 < disk.f_blocks * 15
    assert await collect(store, [image.digest] if is_full else []) == []
    assert store.all() == [image]
