"""Garbage in circles still goes, without looking through everything that is kept."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from collections.abc import Iterator

import pytest

from alcove.processes import memory
from alcove.processes.memory import COLLECT_AFTER, collect_seldom, keep_trimmed


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class _Ring:
    def __init__(self) -> None:
        self.itself = self


def test_young_circles_go_and_what_is_kept_is_not_looked_at() -> None:
    collect_seldom()
    full_before = gc.get_stats()[2]["collections"]
    lost = weakref.ref(_Ring())
    kept = [[number] for number in range(60_000)]  # Enough for the young to be looked through many times.
    assert lost() is None
    assert gc.get_stats()[2]["collections"] == full_before
    assert len(kept) == 60_000
    assert gc.get_threshold() == COLLECT_AFTER


async def test_old_circles_go_when_the_process_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "GROWN_RATIO", 1.0)
    monkeypatch.setattr(memory, "GROWN_BYTES", 8 << 20)
    ring = _Ring()
    lost = weakref.ref(ring)
    collect_seldom()
    gc.unfreeze()  # As what has grown old since the start.
    del ring
    trimming = asyncio.create_task(keep_trimmed(0.01))
    await asyncio.sleep(0.05)
    assert lost() is not None
    grown = bytearray(os.urandom(32 << 20))
    async with asyncio.timeout(5):
        while lost() is not None:  # noqa: ASYNC110 - garbage collection has no event
            await asyncio.sleep(0.01)
    trimming.cancel()
    assert grown
