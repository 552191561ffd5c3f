"""Garbage in circles still goes, without looking through everything that is kept."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import weakref
from collections.abc import Iterator

import pytest

from alcove.processes import memory
from alcove.processes.memory import bound_collections, keep_trimmed


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    gc.freeze()  # As tests/conftest.py does: later collections do not look at the tests themselves.
    gc.set_threshold(*thresholds)


class _Ring:
    def __init__(self) -> None:
        self.itself = self


def test_young_circles_go_and_no_collection_looks_at_everything_that_is_kept() -> None:
    examined: list[int] = []

    def examine(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            examined.append(sum(len(gc.get_objects(each)) for each in range(3)))

    bound_collections()
    gc.callbacks.insert(0, examine)
    lost = weakref.ref(_Ring())
    kept = [[number] for number in range(300_000)]
    assert lost() is None
    assert len(examined) > 5
    assert max(examined) < len(kept) / 2


async def test_old_circles_go_when_the_process_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "QUIET_WAIT_SECONDS_MAX", 0.0)
    monkeypatch.setattr(memory, "GROWN_RATIO", 1.0)
    monkeypatch.setattr(memory, "GROWN_BYTES", 8 << 20)
    ring = _Ring()
    lost = weakref.ref(ring)
    bound_collections()  # The ring is frozen.
    del ring
    trimming = asyncio.create_task(keep_trimmed(0.01, 0.01))
    await asyncio.sleep(0.05)
    assert lost() is not None
    grown = bytearray(os.urandom(32 << 20))
    async with asyncio.timeout(30):
        while lost() is not None:  # noqa: ASYNC110 - garbage collection has no event
            await asyncio.sleep(0.01)
    trimming.cancel()
    assert grown


async def test_a_process_that_grows_is_trimmed_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise hundreds of MiB that were allocated and freed meanwhile would be returned at once."""
    monkeypatch.setattr(memory, "QUIET_WAIT_SECONDS_MAX", 0.0)
    monkeypatch.setattr(memory, "GROWN_RATIO", 1.0)
    monkeypatch.setattr(memory, "GROWN_BYTES", 8 << 20)
    monkeypatch.setattr(memory, "TRIM_BYTES", 16 << 20)
    lost = weakref.ref(_Ring())
    gc.freeze()
    ctypes.CDLL(None).malloc_trim(0)  # What earlier tests freed would hide the growth.
    trimming = asyncio.create_task(keep_trimmed(3600.0, 0.01))
    await asyncio.sleep(0.05)
    grown = bytearray(os.urandom(32 << 20))
    async with asyncio.timeout(30):
        while lost() is not None:  # noqa: ASYNC110 - garbage collection has no event
            await asyncio.sleep(0.01)
    trimming.cancel()
    assert grown


async def test_a_process_returns_what_it_freed_as_soon_as_it_is_quiet() -> None:
    ctypes.CDLL(None).malloc_trim(0)
    before = memory.resident_bytes()
    trimming = asyncio.create_task(keep_trimmed(3600.0, 0.01))
    await asyncio.sleep(0)
    # Small blocks of the C library, with one in use behind them, so that only a trim returns them.
    blocks = [ctypes.create_string_buffer(1024) for _ in range(16 << 10)]
    last = ctypes.create_string_buffer(1024)
    del blocks
    assert memory.resident_bytes() > before + (8 << 20)
    async with asyncio.timeout(30):
        while memory.resident_bytes() > before + (4 << 20):  # noqa: ASYNC110 - a trim has no event
            await asyncio.sleep(0.01)
    trimming.cancel()
    assert last


async def test_a_busy_process_is_not_stopped_for_a_full_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "GROWN_RATIO", 1.0)
    monkeypatch.setattr(memory, "GROWN_BYTES", 8 << 20)
    monkeypatch.setattr(memory, "QUIET_SHARE", 0.0)
    ring = _Ring()
    lost = weakref.ref(ring)
    bound_collections()  # The ring is frozen.
    del ring
    trimming = asyncio.create_task(keep_trimmed(0.01, 0.01))
    await asyncio.sleep(0.05)
    grown = bytearray(os.urandom(32 << 20))
    await asyncio.sleep(0.3)
    assert lost() is not None
    monkeypatch.setattr(memory, "QUIET_SHARE", 1_000.0)
    async with asyncio.timeout(30):
        while lost() is not None:  # noqa: ASYNC110 - garbage collection has no event
            await asyncio.sleep(0.01)
    trimming.cancel()
    assert grown
