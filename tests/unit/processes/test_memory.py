"""Garbage in circles still goes, without looking through everything that is kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from alcove.processes.memory import COLLECT_AFTER, collect_seldom


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
