"""Taints of nodes, and the tolerations of pods that match them."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from alcove.api.objects import Object

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"


class NodeTaint(Struct, frozen=True):
    key: str
    value: str
    effect: str


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


def read_taints(taints: Iterable[Object]) -> tuple[NodeTaint, ...]:
    return tuple(
        NodeTaint(*(each.get(field) or "" for field in ("key", "value", "effect"))) for each in taints
    )


def read_tolerations(tolerations: Iterable[Object]) -> tuple[Toleration, ...]:
    fields = ("key", "operator", "value", "effect")
    return tuple(Toleration(*(each.get(field) or "" for field in fields)) for each in tolerations)


def is_tolerated(taint: NodeTaint, tolerations: Sequence[Toleration]) -> bool:
    return any(toleration.covers(taint) for toleration in tolerations)
