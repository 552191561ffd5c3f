"""Records what a process does while its event loop does not turn, for debugging (`alcove apiserver --stalls FILE`).

A task wakes up every few milliseconds. If it is late, a line of JSON is written: for how long, how much of that the
loop's thread computed, how long it waited for a core, how much other threads computed, and what each thread did in the
middle of it. What remains of the time, the loop's thread waited for something: most likely the interpreter lock.

The stacks are read by a thread, which needs the interpreter lock as well. So it sees what follows a long call of native
code, but in the function that made the call.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from types import FrameType

import msgspec
from msgspec import Struct

STALL_SECONDS = 0.025
PAUSE_SECONDS = 0.005
FRAMES_MAX = 24


class Stall(Struct, frozen=True):
    at: float
    """Seconds since the epoch."""
    ms: float
    computed_ms: float
    """CPU time of the loop's thread."""
    queued_ms: float
    """While it was ready to run, and other processes had the cores."""
    others_ms: float
    """CPU time of the process's other threads."""
    stacks: dict[str, list[str]]
    """By the name of the thread, the innermost frame first."""


class _Usage(Struct, frozen=True):
    computed: float
    queued: float
    process: float

    @classmethod
    def now(cls) -> _Usage:
        queued_ns = Path("/proc/thread-self/schedstat").read_text().split()[1]
        return cls(time.thread_time(), int(queued_ns) / 1e9, time.process_time())


class _Sampler(threading.Thread):
    """Reads the stacks of all threads when a deadline has passed that was not moved in time."""

    def __init__(self) -> None:
        super().__init__(name="stall sampler", daemon=True)
        self.deadline = float("inf")
        self.stacks: dict[str, list[str]] = {}
        self.is_stopped = False

    def move(self, deadline: float) -> None:
        self.stacks = {}
        self.deadline = deadline

    def run(self) -> None:
        while not self.is_stopped:
            remaining = self.deadline - time.monotonic()
            if remaining <= 0 and not self.stacks:
                self.stacks = _stacks()
            time.sleep(min(max(remaining, PAUSE_SECONDS), STALL_SECONDS))


async def record_stalls(path: Path, stall_seconds: float = STALL_SECONDS) -> None:
    """Appends every stall of this thread's event loop to the file, until cancelled."""
    sampler = _Sampler()
    sampler.start()
    try:
        with path.open("ab", buffering=0) as record:
            while True:
                before, began = _Usage.now(), time.monotonic()
                sampler.move(began + PAUSE_SECONDS + stall_seconds)
                await asyncio.sleep(PAUSE_SECONDS)
                late = time.monotonic() - began - PAUSE_SECONDS
                if late > stall_seconds:
                    record.write(
                        msgspec.json.encode(_stall(late, before, _Usage.now(), sampler.stacks)) + b"\n"
                    )
    finally:
        sampler.is_stopped = True


def _stall(late: float, before: _Usage, after: _Usage, stacks: dict[str, list[str]]) -> Stall:
    computed = after.computed - before.computed
    return Stall(
        at=round(time.time(), 3),
        ms=round(late * 1e3, 1),
        computed_ms=round(computed * 1e3, 1),
        queued_ms=round((after.queued - before.queued) * 1e3, 1),
        others_ms=round((after.process - before.process - computed) * 1e3, 1),
        stacks=stacks,
    )


def _stacks() -> dict[str, list[str]]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {
        names.get(ident, f"thread {ident:x}"): _frames(frame)
        for ident, frame in sys._current_frames().items()
        if ident != threading.get_ident()
    }


def _frames(frame: FrameType | None) -> list[str]:
    found: list[str] = []
    while frame is not None and len(found) < FRAMES_MAX:
        place = frame.f_code.co_filename.rpartition("/site-packages/")[2].rpartition("/src/")[2]
        found.append(f"{place}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return found


def read_stalls(path: Path) -> list[Stall]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Stall) for line in lines]
