"""The pods that a stateful set creates and deletes next, and its status. Pure.

Ordered sets do one step at a time and wait until each pod is available before the next; parallel sets
create and delete pods concurrently. Both update from the highest ordinal down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from alcove.api.objects import Object, get, labels
from alcove.controllers.statefulsets.identity import REVISION, ordinal_of, ordinals
from alcove.controllers.workloads import pods
from alcove.controllers.workloads.creation import BURST_MAX


class StatefulSetRevisions(Struct, frozen=True):
    """The names of the current revision and of the update revision."""

    current: str
    update: str


class CreatePod(Struct, frozen=True):
    ordinal: int
    revision: str


class StatefulSetPlan(Struct, frozen=True):
    create: list[CreatePod] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


def is_ordered(stateful_set: Object) -> bool:
    return bool(get(stateful_set, "spec", "podManagementPolicy") != "Parallel")


def by_ordinal(stateful_set: Object, owned: Sequence[Object]) -> dict[int, Object]:
    numbered = ((ordinal_of(stateful_set, pod["metadata"]["name"]), pod) for pod in owned)
    return {ordinal: pod for ordinal, pod in numbered if ordinal is not None}


def condemned(stateful_set: Object, existing: Mapping[int, Object]) -> list[Object]:
    """Pods beyond the desired ordinals, highest first."""
    desired = ordinals(stateful_set)
    return [existing[each] for each in sorted(existing, reverse=True) if each not in desired]


def plan(
    stateful_set: Object, owned: Sequence[Object], revisions: StatefulSetRevisions, now: float
) -> StatefulSetPlan:
    if "deletionTimestamp" in stateful_set["metadata"]:
        return StatefulSetPlan()
    existing, result = by_ordinal(stateful_set, owned), StatefulSetPlan()
    if not _fill(stateful_set, existing, revisions, now, result):
        return result
    if _shrink(stateful_set, existing, now, result):
        _roll(stateful_set, existing, revisions, now, result)
    return result


def _is_available(stateful_set: Object, pod: Object, now: float) -> bool:
    min_ready = stateful_set["spec"].get("minReadySeconds", 0)
    return pods.is_available(pod, min_ready, now) and not pods.is_terminating(pod)


def _fill(
    stateful_set: Object,
    existing: Mapping[int, Object],
    revisions: StatefulSetRevisions,
    now: float,
    result: StatefulSetPlan,
) -> bool:
    """Creates missing pods and replaces finished ones. False if later steps have to wait. A set may want two billion pods:
    no more are planned than one pass creates, and one more, so that it is followed by another."""
    ordered = is_ordered(stateful_set)
    for ordinal in ordinals(stateful_set):
        pod = existing.get(ordinal)
        if pod is None:
            result.create.append(CreatePod(ordinal, _revision_for(stateful_set, ordinal, revisions)))
        elif pods.is_finished(pod) and not pods.is_terminating(pod):
            result.delete.append(pod)
        elif _is_available(stateful_set, pod, now):
            continue
        if ordered or len(result.create) > BURST_MAX:
            return False
    return True


def _revision_for(stateful_set: Object, ordinal: int, revisions: StatefulSetRevisions) -> str:
    below = ordinals(stateful_set).start + partition(stateful_set)
    return revisions.current if ordinal < below else revisions.update


def partition(stateful_set: Object) -> int:
    """Pods with an ordinal below the partition are not updated."""
    return get(stateful_set, "spec", "updateStrategy", "rollingUpdate", "partition", default=0)  # type: ignore[no-any-return]


def _shrink(
    stateful_set: Object, existing: Mapping[int, Object], now: float, result: StatefulSetPlan
) -> bool:
    """Deletes surplus pods. False if later steps have to wait.

    An ordered set deletes its highest pod only when that pod is available, or is the only unavailable one:
    while another is unavailable, a scale-down could take the last working member of an application.
    """
    surplus = condemned(stateful_set, existing)
    if not is_ordered(stateful_set):
        result.delete.extend(pod for pod in surplus if not pods.is_terminating(pod))
        return True
    if not surplus:
        return True
    highest = surplus[0]
    unavailable = [pod for pod in surplus if not _is_available(stateful_set, pod, now)]
    if not pods.is_terminating(highest) and (highest not in unavailable or highest is unavailable[-1]):
        result.delete.append(highest)
    return False


def _roll(
    stateful_set: Object,
    existing: Mapping[int, Object],
    revisions: StatefulSetRevisions,
    now: float,
    result: StatefulSetPlan,
) -> None:
    """Deletes pods of an outdated revision, from the highest ordinal, so that they are recreated updated."""
    if get(stateful_set, "spec", "updateStrategy", "type") == "OnDelete":
        return
    desired = ordinals(stateful_set)
    wanted = sorted((each for each in existing if each in desired), reverse=True)
    available = sum(1 for each in wanted if _is_available(stateful_set, existing[each], now))
    budget = _unavailable_max(stateful_set) - (len(desired) - available)
    for ordinal in wanted:
        pod = existing[ordinal]
        if ordinal < desired.start + partition(stateful_set):
            return
        if pods.is_terminating(pod) or labels(pod).get(REVISION) == revisions.update:
            continue
        if any(pod is each for each in result.delete):
            continue
        # Deleting an unavailable pod needs no budget: the update may repair it.
        if _is_available(stateful_set, pod, now):
            if budget <= 0:
                return
            budget -= 1
        result.delete.append(pod)
        if _unavailable_max(stateful_set) == 1:
            return


def _unavailable_max(stateful_set: Object) -> int:
    maximum: int | str = get(
        stateful_set, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable", default=1
    )
    if isinstance(maximum, str):
        maximum = math.ceil(len(ordinals(stateful_set)) * int(maximum.removesuffix("%")) / 100)
    return max(1, maximum)


def status(
    stateful_set: Object, owned: Sequence[Object], revisions: StatefulSetRevisions, now: float
) -> Object:
    """The whole new status. When an update is complete, its revision becomes the current one."""
    old = stateful_set.get("status") or {}
    existing = [pod for pod in by_ordinal(stateful_set, owned).values() if not pods.is_finished(pod)]
    active = [pod for pod in existing if not pods.is_terminating(pod)]
    min_ready = stateful_set["spec"].get("minReadySeconds", 0)
    counts = {
        "replicas": len(existing),
        "readyReplicas": sum(1 for pod in existing if pods.is_ready(pod)),
        "availableReplicas": sum(1 for pod in existing if pods.is_available(pod, min_ready, now)),
        "currentReplicas": sum(1 for pod in active if labels(pod).get(REVISION) == revisions.current),
        "updatedReplicas": sum(1 for pod in active if labels(pod).get(REVISION) == revisions.update),
    }
    current, desired = revisions.current, len(ordinals(stateful_set))
    is_rolling = (
        get(stateful_set, "spec", "updateStrategy", "type", default="RollingUpdate") == "RollingUpdate"
    )
    if is_rolling and counts["updatedReplicas"] == counts["replicas"] == counts["readyReplicas"] == desired:
        current, counts["currentReplicas"] = revisions.update, counts["updatedReplicas"]
    new: Object = {field_: count for field_, count in counts.items() if count or field_ in _ALWAYS}
    retained = {field_: value for field_, value in old.items() if field_ in ("collisionCount", "conditions")}
    return {
        **retained,
        **new,
        "currentRevision": current,
        "updateRevision": revisions.update,
        "observedGeneration": stateful_set["metadata"].get("generation", 0),
    }


_ALWAYS = ("replicas", "availableReplicas")
