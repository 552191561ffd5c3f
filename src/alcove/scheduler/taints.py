"""Taints and tolerations."""

from collections.abc import Sequence

from msgspec import Struct

from alcove.api.objects import Object
from alcove.scheduler.variants import Variants

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
FORBIDDING = (NO_SCHEDULE, NO_EXECUTE)


class NodeTaint(Struct, frozen=True):
    key: str
    value: str
    effect: str


UNSCHEDULABLE = NodeTaint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class Toleration(Struct, frozen=True):
    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: NodeTaint) -> bool:
        """An empty effect covers all effects, an empty key all keys. Gt and Lt are not enabled in
        Kubernetes 1.36 and cover nothing."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


def read_taints(raw: Sequence[Object]) -> tuple[NodeTaint, ...]:
    return tuple(
        NodeTaint(each.get("key", ""), each.get("value", ""), each.get("effect", "")) for each in raw
    )


def read_tolerations(raw: Sequence[Object]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            each.get("key", ""), each.get("operator", ""), each.get("value", ""), each.get("effect", "")
        )
        for each in raw
    )


def is_tolerated(taint: NodeTaint, tolerations: Sequence[Toleration]) -> bool:
    return any(toleration.covers(taint) for toleration in tolerations)


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
