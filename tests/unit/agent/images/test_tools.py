"""Commands that fetch and unpack images: what they print is bounded, and what they write."""

import os
from pathlib import Path

import pytest

from alcove.agent.images import tools
from alcove.agent.images.model import PullFailed


async def test_a_command_that_prints_without_end_is_killed() -> None:
    with pytest.raises(PullFailed, match=f"the output of yes has more than {tools.OUTPUT_BYTES_MAX} bytes"):
        await tools._run("yes")


async def test_as_much_output_as_is_allowed_is_returned() -> None:
    output = await tools._run("head", "-c", str(tools.OUTPUT_BYTES_MAX), "/dev/zero")
    assert len(output) == tools.OUTPUT_BYTES_MAX


async def test_the_message_of_a_failure_is_the_last_one_and_is_cut() -> None:
    script = "yes first | head -c 1000000 >&2; echo 'level=fatal msg=\"'$(head -c 9999 /dev/zero | tr '\\0' x)'\"' >&2; exit 1"
    with pytest.raises(PullFailed) as raised:
        await tools._run("sh", "-c", script)
    assert str(raised.value) == "x" * tools.MESSAGE_LENGTH_MAX


async def test_a_disk_without_inodes_gets_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of empty files need no space in bytes."""
    real = os.statvfs(tmp_path)
    nearly_full = os.statvfs_result((*real[:5], 1_000, 49, 49, *real[8:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: nearly_full)
    with pytest.raises(PullFailed, match="of the disk's inodes are free"):
        await tools._run("true", into=tmp_path)
