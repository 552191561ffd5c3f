"""A tenant's images leave room on the node's disk for those of others."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from alcove.agent.file_trees import TreeUsage
from alcove.agent.images import disk_share


@pytest.mark.parametrize(
    ("free", "own", "left"),
    [
        (1_000, 0, 250),
        (900, 100, 150),
        (700, 250, 0),
        (100, 0, 50),
        (100, 80, 10),
        (60, 80, 0),
    ],
    ids=["a quarter", "with what it has", "no more", "half of what is free", "fairly", "others first"],
)
def test_what_a_tenant_may_add(monkeypatch: pytest.MonkeyPatch, free: int, own: int, left: int) -> None:
    disk = SimpleNamespace(f_blocks=1_000, f_bavail=free, f_frsize=4_096, f_files=1_000, f_favail=free)
    monkeypatch.setattr(os, "statvfs", lambda _path: disk)
    room = disk_share.room(Path("/"), TreeUsage(own * 4_096, own))
    assert room == TreeUsage(left * 4_096, left)
    assert not disk_share.exceeds(room, room)
    assert disk_share.exceeds(TreeUsage(room.bytes, room.files + 1), room)
    assert disk_share.exceeds(TreeUsage(room.bytes + 1, room.files), room)
    assert disk_share.exceeds(TreeUsage(0, 0, is_cut=True), room)


def test_a_file_system_without_a_number_of_inodes_has_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_blocks=1_000, f_bavail=500, f_frsize=1, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda _path: disk)
    assert not disk_share.exceeds(TreeUsage(10, 1 << 40), disk_share.room(Path("/"), TreeUsage()))
