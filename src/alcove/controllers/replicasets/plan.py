"""How many pods a replica set creates, which it deletes, and its status. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api.objects import Object, get, labels
from alcove.controllers.conditions import Condition, updated
from alcove.controllers.workloads import pods
from alcove.controllers.workloads.creation import BURST_MAX

FAILURE = "ReplicaFailure"


class ReplicaSetPlan(Struct, frozen=True):
    create: int = 0
    delete: tuple[Object, ...] = ()


NOTHING = ReplicaSetPlan()


def replicas(obj: Object) -> int:
    return get(obj, "spec", "replicas", default=1)  # type: ignore[no-any-return]


def plan(obj: Object, owned: Sequence[Object], neighbours: Sequence[Object], now: float) -> ReplicaSetPlan:
    """`owned` are the set's active pods; `neighbours` all pods of the application, to spread deletions by
    node."""
    if "deletionTimestamp" in obj["metadata"]:
        return NOTHING
    missing = replicas(obj) - len(owned)
    if missing >= 0:
        return ReplicaSetPlan(create=min(missing, BURST_MAX))
    ranked = sorted(owned, key=pods.first_to_delete(neighbours, now))
    return ReplicaSetPlan(delete=tuple(ranked[: min(-missing, BURST_MAX)]))


class ReplicaFailure(Struct, frozen=True):
    """Why the desired number of pods could not be reached."""

    reason: str
    message: str


def status(
    obj: Object,
    owned: Sequence[Object],
    failure: ReplicaFailure | None,
    now: float,
    terminating: int | None = None,
) -> Object:
    """The whole new status; equal to the old one if nothing changed. `terminating` is the number of its pods that are
    being deleted; None for kinds whose status does not have it."""
    old = obj.get("status") or {}
    min_ready = get(obj, "spec", "minReadySeconds", default=0)
    template_labels = get(obj, "spec", "template", "metadata", "labels", default={})
    counts = {
        "replicas": len(owned),
        "fullyLabeledReplicas": sum(1 for pod in owned if template_labels.items() <= labels(pod).items()),
        "readyReplicas": sum(1 for pod in owned if pods.is_ready(pod)),
        "availableReplicas": sum(1 for pod in owned if pods.is_available(pod, min_ready, now)),
        "observedGeneration": max(obj["metadata"].get("generation", 0), old.get("observedGeneration", 0)),
    }
    new: Object = {field: count for field, count in counts.items() if count or field == "replicas"}
    if terminating is not None:
        new["terminatingReplicas"] = terminating
    if conditions := _conditions(old, failure, now):
        new["conditions"] = conditions
    retained = {field: value for field, value in old.items() if field not in (*counts, "conditions")}
    return retained | new


def _conditions(old: Object, failure: ReplicaFailure | None, now: float) -> list[Object]:
    existing = old.get("conditions") or []
    if failure is None:
        return [each for each in existing if each.get("type") != FAILURE]
    return updated(existing, [Condition(FAILURE, True, failure.reason, failure.message)], now)
