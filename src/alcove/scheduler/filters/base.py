"""The filter interface: which nodes a pod may run on, and the reasons for the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum
from typing import ClassVar

from msgspec import Struct

from alcove.scheduler.arrays import EVERY, Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache


class FilterScope(Enum):
    """What a result depends on besides the pod's shape: it determines how long it can be cached."""

    NODE = "what the node is"
    USE = "what the node is, and what is taken on it"
    WORLD = "anything"


class Refusal(Struct):
    """Nodes that refuse the pod for one reason."""

    reason: str
    nodes: Bools
    is_curable: bool
    """Whether preemption on the node may help."""


class Filter(ABC):
    """Stateless. `rows` are the slots to evaluate; results have one element for each."""

    name: ClassVar[str]
    """kube-scheduler's plugin name."""
    scope: ClassVar[FilterScope]
    reason: ClassVar[str] = ""
    is_curable: ClassVar[bool] = False
    cured_by: ClassVar[WakeCause]
    """Events that may make a refused pod schedulable."""

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        """Whether the filter can refuse any node; it is skipped if not."""
        return True

    def fault(self, cache: SchedulerCache, pod: SchedulerPod) -> str:
        """An error of the pod itself, independent of nodes. Empty if there is none."""
        return ""

    @abstractmethod
    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools: ...

    def refusals(self, cache: SchedulerCache, pod: SchedulerPod) -> Iterator[Refusal]:
        """All nodes that do not pass, by reason; a node can have several."""
        yield Refusal(self.reason, ~self.passes(cache, pod, EVERY), self.is_curable)
