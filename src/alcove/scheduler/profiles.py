"""Profiles: the filters and scores for each `schedulerName`."""

from __future__ import annotations

from msgspec import Struct

from alcove.scheduler.filters import FILTERS
from alcove.scheduler.filters.base import Filter
from alcove.scheduler.scores import SCORES, Weighted
from alcove.scheduler.scores.node_resources import LeastAllocated, MostAllocated
from alcove.scheduler.shapes import DEFAULT_PROFILE


class SchedulerProfile(Struct, frozen=True):
    name: str
    filters: tuple[Filter, ...] = FILTERS
    scores: Weighted = SCORES


def packing(name: str) -> SchedulerProfile:
    """Fills nodes instead of spreading pods over them."""
    scores = tuple(
        (MostAllocated() if isinstance(score, LeastAllocated) else score, weight) for score, weight in SCORES
    )
    return SchedulerProfile(name, scores=scores)


Profiles = dict[str, SchedulerProfile]

PROFILES: Profiles = {
    DEFAULT_PROFILE: SchedulerProfile(DEFAULT_PROFILE),
    "packing-scheduler": packing("packing-scheduler"),
}
