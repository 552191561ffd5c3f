"""The taints of all nodes, as filters and scores read them."""

from collections.abc import Sequence

from alcove.api.tolerations import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    NodeTaint,
    Toleration,
    is_tolerated,
)
from alcove.scheduler.variants import Variants

FORBIDDING = (NO_SCHEDULE, NO_EXECUTE)


UNSCHEDULABLE = NodeTaint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def forbids(taints: Sequence[NodeTaint], tolerations: Sequence[Toleration]) -> bool:
    """Whether a taint forbids scheduling a pod with these tolerations."""
    return any(taint.effect in FORBIDDING and not is_tolerated(taint, tolerations) for taint in taints)


def disliked(taints: Sequence[NodeTaint], tolerations: Sequence[Toleration]) -> int:
    """Number of PreferNoSchedule taints that are not tolerated."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations) for taint in taints
    )


def _prefers(taints: Sequence[NodeTaint]) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)


class TaintSets(Variants[tuple[NodeTaint, ...]]):
    """The taints of each node."""

    def __init__(self) -> None:
        super().__init__(())
        self._preferring = 0
        """Nodes with a PreferNoSchedule taint."""

    def put(self, slot: int, value: tuple[NodeTaint, ...]) -> None:
        self._preferring += _prefers(value) - _prefers(self.get(slot))
        super().put(slot, value)

    @property
    def has_preferences(self) -> bool:
        """Whether any node has a PreferNoSchedule taint."""
        return self._preferring > 0
