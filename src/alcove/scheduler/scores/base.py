"""What a score is: how good each node is for a pod, from 0 to 100 once normalized."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache

BEST = 100


class Score(ABC):
    """Stateless. Raw scores of scope USE are final: they do not depend on what other nodes get."""

    name: ClassVar[str]
    """As kube-scheduler names the plugin."""
    scope: ClassVar[FilterScope]

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        """Whether it could tell nodes apart at all: skipped if not."""
        return True

    @abstractmethod
    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints: ...

    def normalized(self, cache: SchedulerCache, pod: SchedulerPod, raw: Ints, feasible: Bools) -> Ints:
        """From 0 to 100, by comparison of the feasible nodes (of all slots)."""
        return raw


def by_share(raw: Ints, feasible: Bools) -> Ints:
    """In proportion to the best of the feasible nodes."""
    most = greatest(raw, feasible)
    return raw if most == 0 else raw * BEST // most


def by_absence(raw: Ints, feasible: Bools) -> Ints:
    """The less the better, in proportion to the worst of the feasible nodes."""
    return BEST - by_share(raw, feasible)


def greatest(raw: Ints, feasible: Bools) -> int:
    """Of the feasible nodes, and at least 0."""
    return int(np.max(raw, where=feasible, initial=0))
