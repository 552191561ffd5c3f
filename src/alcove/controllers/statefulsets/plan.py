"""What a stateful set does next. Pure.

Ordered sets do one thing at a time and wait for each pod to be available before the next; parallel ones
make and delete all at once. Updates go from the highest ordinal down, in both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from alcove.api.objects import Object, get, labels
from alcove.controllers.statefulsets.identity import REVISION, ordinal_of, ordinals
from alcove.controllers.workloads import pods


class StatefulSetRevisions(Struct, frozen=True):
    """Names of the revision that the set comes from, and of the one that it goes to."""

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
    found = ((ordinal_of(stateful_set, pod["metadata"]["name"]), pod) for pod in owned)
    return {ordinal: pod for ordinal, pod in found if ordinal is not None}


def condemned(stateful_set: Object, there: Mapping[int, Object]) -> list[Object]:
    """Pods that should not be there, the highest first."""
    desired = ordinals(stateful_set)
    return [there[each] for each in sorted(there, reverse=True) if each not in desired]


def plan(
    stateful_set: Object, owned: Sequence[Object], revisions: StatefulSetRevisions, now: float
) -> StatefulSetPlan:
    if "deletionTimestamp" in stateful_set["metadata"]:
        return StatefulSetPlan()
    there, result = by_ordinal(stateful_set, owned), StatefulSetPlan()
    if _fill(stateful_set, there, revisions, now, result) and _shrink(stateful_set, there, result):
        _roll(stateful_set, there, revisions, now, result)
    return result


def _is_available(stateful_set: Object, pod: Object, now: float) -> bool:
    min_ready = stateful_set["spec"].get("minReadySeconds", 0)
    return pods.is_available(pod, min_ready, now) and not pods.is_ending(pod)


def _fill(
    stateful_set: Object,
    there: Mapping[int, Object],
    revisions: StatefulSetRevisions,
    now: float,
    result: StatefulSetPlan,
) -> bool:
    """Makes what is missing, replaces what has ended. False: the rest has to wait."""
    ordered = is_ordered(stateful_set)
    for ordinal in ordinals(stateful_set):
        pod = there.get(ordinal)
        if pod is None:
            result.create.append(CreatePod(ordinal, _revision_for(stateful_set, ordinal, revisions)))
        elif pods.is_finished(pod) and not pods.is_ending(pod):
            result.delete.append(pod)
        elif _is_available(stateful_set, pod, now):
            continue
        if ordered:
            return False
    return True


def _revision_for(stateful_set: Object, ordinal: int, revisions: StatefulSetRevisions) -> str:
    below = ordinals(stateful_set).start + partition(stateful_set)
    return revisions.current if ordinal < below else revisions.update


def partition(stateful_set: Object) -> int:
    """Pods below it stay as they are."""
    return get(stateful_set, "spec", "updateStrategy", "rollingUpdate", "partition", default=0)  # type: ignore[no-any-return]


def _shrink(stateful_set: Object, there: Mapping[int, Object], result: StatefulSetPlan) -> bool:
    """Deletes what is too much. False: the rest has to wait."""
    surplus = condemned(stateful_set, there)
    going = [pod for pod in surplus if not pods.is_ending(pod)]
    if not is_ordered(stateful_set):
        result.delete.extend(going)
        return True
    if surplus and surplus[0] in going:
        result.delete.append(surplus[0])
    return not surplus


def _roll(
    stateful_set: Object,
    there: Mapping[int, Object],
    revisions: StatefulSetRevisions,
    now: float,
    result: StatefulSetPlan,
) -> None:
    """Deletes pods of an outdated revision, from the highest ordinal, so that they come back updated."""
    if get(stateful_set, "spec", "updateStrategy", "type") == "OnDelete":
        return
    desired = ordinals(stateful_set)
    gone = sum(
        1 for each in desired if each not in there or not _is_available(stateful_set, there[each], now)
    )
    spare = _unavailable_max(stateful_set) - gone
    for ordinal in reversed(range(desired.start + partition(stateful_set), desired.stop)):
        pod = there.get(ordinal)
        if pod is None or pods.is_ending(pod) or labels(pod).get(REVISION) == revisions.update:
            continue
        if any(pod is each for each in result.delete):
            continue
        # One that does not work anyway costs nothing: it may be what the update is to mend.
        if _is_available(stateful_set, pod, now):
            if spare <= 0:
                return
            spare -= 1
        result.delete.append(pod)
        if _unavailable_max(stateful_set) == 1:
            return


def _unavailable_max(stateful_set: Object) -> int:
    most: int | str = get(
        stateful_set, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable", default=1
    )
    if isinstance(most, str):
        most = math.ceil(len(ordinals(stateful_set)) * int(most.removesuffix("%")) / 100)
    return max(1, most)


def status(
    stateful_set: Object, owned: Sequence[Object], revisions: StatefulSetRevisions, now: float
) -> Object:
    """The whole status; an update that is through makes its revision the current one."""
    old = stateful_set.get("status") or {}
    there = [pod for pod in by_ordinal(stateful_set, owned).values() if not pods.is_finished(pod)]
    living = [pod for pod in there if not pods.is_ending(pod)]
    min_ready = stateful_set["spec"].get("minReadySeconds", 0)
    counts = {
        "replicas": len(there),
        "readyReplicas": sum(1 for pod in there if pods.is_ready(pod)),
        "availableReplicas": sum(1 for pod in there if pods.is_available(pod, min_ready, now)),
        "currentReplicas": sum(1 for pod in living if labels(pod).get(REVISION) == revisions.current),
        "updatedReplicas": sum(1 for pod in living if labels(pod).get(REVISION) == revisions.update),
    }
    current, desired = revisions.current, len(ordinals(stateful_set))
    rolls = get(stateful_set, "spec", "updateStrategy", "type", default="RollingUpdate") == "RollingUpdate"
    if rolls and counts["updatedReplicas"] == counts["replicas"] == counts["readyReplicas"] == desired:
        current, counts["currentReplicas"] = revisions.update, counts["updatedReplicas"]
    new: Object = {field_: count for field_, count in counts.items() if count or field_ in _ALWAYS}
    kept = {field_: value for field_, value in old.items() if field_ in ("collisionCount", "conditions")}
    return {
        **kept,
        **new,
        "currentRevision": current,
        "updateRevision": revisions.update,
        "observedGeneration": stateful_set["metadata"].get("generation", 0),
    }


_ALWAYS = ("replicas", "availableReplicas")
