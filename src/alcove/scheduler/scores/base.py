"""What a score is: how good each node is for a pod, from 0 to 100 once normalized."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.filters.base import Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.world import World

BEST = 100


class Score(ABC):
    """Stateless. Raw scores of scope USE are final: they do not depend on what other nodes get."""

    name: ClassVar[str]
    """As kube-scheduler names the plugin."""
    scope: ClassVar[Scope]

    def applies(self, world: World, pod: Pod) -> bool:
        """Whether it could tell nodes apart at all: skipped if not."""
        return True

    @abstractmethod
    def raw(self, world: World, pod: Pod, rows: Rows) -> Ints: ...

    def normalized(self, world: World, pod: Pod, raw: Ints, feasible: Bools) -> Ints:
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
