"""The score interface: how good each node is for a pod, from 0 to 100 after normalization."""

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
    """Stateless. Raw scores of scope USE are final: they do not depend on other nodes' scores."""

    name: ClassVar[str]
    """kube-scheduler's plugin name."""
    scope: ClassVar[FilterScope]

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        """Whether scores can differ between nodes; it is skipped if not."""
        return True

    @abstractmethod
    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints: ...

    def normalized(self, cache: SchedulerCache, pod: SchedulerPod, raw: Ints, feasible: Bools) -> Ints:
        """Scores from 0 to 100 for all slots, relative to the feasible nodes."""
        return raw


def by_share(raw: Ints, feasible: Bools) -> Ints:
    """Scores in proportion to the maximum of the feasible nodes."""
    maximum = greatest(raw, feasible)
    return raw if maximum == 0 else raw * BEST // maximum


def by_absence(raw: Ints, feasible: Bools) -> Ints:
    """Inverse scores in proportion to the maximum of the feasible nodes."""
    return BEST - by_share(raw, feasible)


def greatest(raw: Ints, feasible: Bools) -> int:
    """The maximum of the feasible nodes, at least 0."""
    return int(np.max(raw, where=feasible, initial=0))
