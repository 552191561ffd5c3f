"""Taints and who tolerates them. Nodes' sets of taints are few, so each is kept once and has an id."""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from alcove.api.objects import Object
from alcove.scheduler.arrays import Bools, Ids, Ints, Rows

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
FORBIDDING = (NO_SCHEDULE, NO_EXECUTE)


class Taint(Struct, frozen=True):
    key: str
    value: str
    effect: str


UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class Toleration(Struct, frozen=True):
    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """An empty effect covers all effects, an empty key all keys. Gt and Lt are not enabled in
        Kubernetes 1.36 and cover nothing."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


def read_taints(raw: Sequence[Object]) -> tuple[Taint, ...]:
    return tuple(Taint(each.get("key", ""), each.get("value", ""), each.get("effect", "")) for each in raw)


def read_tolerations(raw: Sequence[Object]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            each.get("key", ""), each.get("operator", ""), each.get("value", ""), each.get("effect", "")
        )
        for each in raw
    )


def is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(toleration.covers(taint) for toleration in tolerations)


def forbids(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Whether some taint keeps a pod with these tolerations from being placed."""
    return any(taint.effect in FORBIDDING and not is_tolerated(taint, tolerations) for taint in taints)


def disliked(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
    """How many PreferNoSchedule taints a pod with these tolerations does not tolerate."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations) for taint in taints
    )


def _prefers(taints: Sequence[Taint]) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)


class TaintSets:
    """Which of the known sets of taints each node has."""

    def __init__(self) -> None:
        self._sets: list[tuple[Taint, ...]] = [()]
        self._ids: dict[tuple[Taint, ...], int] = {(): 0}
        self.ids: Ids = np.zeros(0, dtype=np.int32)
        """The set of each slot."""
        self._preferring = 0
        """Nodes with a PreferNoSchedule taint."""

    def grow(self, slots: int) -> None:
        self.ids = np.concatenate([self.ids, np.zeros(slots - len(self.ids), dtype=np.int32)])

    def put(self, slot: int, taints: tuple[Taint, ...]) -> None:
        found = self._ids.get(taints)
        if found is None:
            found = self._ids[taints] = len(self._sets)
            self._sets.append(taints)
        self._preferring += _prefers(taints) - _prefers(self._sets[self.ids[slot]])
        self.ids[slot] = found

    @property
    def has_preferences(self) -> bool:
        """Whether any node has a PreferNoSchedule taint."""
        return self._preferring > 0

    def test(self, judge: Callable[[tuple[Taint, ...]], bool], rows: Rows) -> Bools:
        verdicts = np.array([judge(taints) for taints in self._sets], dtype=np.bool_)
        answers: Bools = verdicts[self.ids[rows]]
        return answers

    def count(self, judge: Callable[[tuple[Taint, ...]], int], rows: Rows) -> Ints:
        counts = np.array([judge(taints) for taints in self._sets], dtype=np.int64)
        answers: Ints = counts[self.ids[rows]]
        return answers
