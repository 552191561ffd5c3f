"""What a filter is: a question to all nodes at once, and the words for those that answer no."""

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
    """What an answer depends on besides the pod's shape, and so how long it holds."""

    NODE = "what the node is"
    USE = "what the node is, and what is taken on it"
    WORLD = "anything"


class Refusal(Struct):
    """Nodes that refuse the pod for one reason."""

    reason: str
    nodes: Bools
    is_curable: bool
    """Whether the node might take the pod if others left it."""


class Filter(ABC):
    """Stateless. `rows` are the slots asked about; answers have one element for each."""

    name: ClassVar[str]
    """As kube-scheduler names the plugin."""
    scope: ClassVar[FilterScope]
    reason: ClassVar[str] = ""
    is_curable: ClassVar[bool] = False
    cured_by: ClassVar[WakeCause]
    """What may let a refused pod pass later."""

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        """Whether it could refuse any node at all: skipped if not."""
        return True

    def fault(self, cache: SchedulerCache, pod: SchedulerPod) -> str:
        """Why the pod can go nowhere, whatever the nodes; empty if there is no such reason."""
        return ""

    @abstractmethod
    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools: ...

    def refusals(self, cache: SchedulerCache, pod: SchedulerPod) -> Iterator[Refusal]:
        """Every node that does not pass, by reason; a node can have several."""
        yield Refusal(self.reason, ~self.passes(cache, pod, EVERY), self.is_curable)
