"""A stall of the event loop is recorded with what its thread did meanwhile."""

import asyncio
import time
from pathlib import Path

from alcove.component.stall_recorder import Stall, read_stalls, record_stalls


def _block(seconds: float) -> None:
    time.sleep(seconds)


def _burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def _stalls_of(path: Path, function: str) -> list[Stall]:
    return [
        stall
        for stall in read_stalls(path)
        if any(frame.endswith(f" {function}") for frame in stall.stacks.get("MainThread", ()))
    ]


async def test_who_stops_the_loop_is_named(tmp_path: Path) -> None:
    path = tmp_path / "stalls"
    async with asyncio.timeout(30):
        recording = asyncio.create_task(record_stalls(path))
        while not _stalls_of(path, "_block"):
            await asyncio.sleep(0.02)
            _block(0.3)
        while not _stalls_of(path, "_burn"):
            await asyncio.sleep(0.02)
            _burn(0.3)
    recording.cancel()
    blocked, burnt = _stalls_of(path, "_block")[0], _stalls_of(path, "_burn")[0]
    assert blocked.ms > 100 and blocked.computed_ms < 200
    assert burnt.computed_ms > 200


async def test_a_loop_that_turns_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "stalls"
    recording = asyncio.create_task(record_stalls(path, stall_seconds=30.0))
    for _ in range(20):
        await asyncio.sleep(0.005)
    recording.cancel()
    assert read_stalls(path) == []
