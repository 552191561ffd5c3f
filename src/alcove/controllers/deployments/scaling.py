"""The next size of each replica set of a deployment: rolling update, recreate, proportional scaling. Pure.

Each function plans only the next step from the current state; its effects trigger the next reconcile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from alcove.api.objects import Object, get
from alcove.controllers.deployments.revisions import DESIRED, MAXIMUM, DeploymentReplicaSets, age, annotated


class ReplicaSetScale(Struct, frozen=True):
    set: Object
    replicas: int


class RolloutBounds(Struct, frozen=True):
    """maxSurge and maxUnavailable as numbers of pods."""

    surge: int
    unavailable: int


def replicas(obj: Object) -> int:
    return get(obj, "spec", "replicas", default=1)  # type: ignore[no-any-return]


def available(replica_set: Object) -> int:
    return get(replica_set, "status", "availableReplicas", default=0)  # type: ignore[no-any-return]


def total(sets: Sequence[Object]) -> int:
    return sum(replicas(each) for each in sets)


def is_rolling(deployment: Object) -> bool:
    return bool(get(deployment, "spec", "strategy", "type") == "RollingUpdate")


def part_of(value: int | str, whole: int, *, up: bool) -> int:
    """Resolves a count or a percentage of `whole`; `up` rounds percentages up."""
    if isinstance(value, int):
        return value
    share = whole * int(value.removesuffix("%")) / 100
    return math.ceil(share) if up else math.floor(share)


def bounds(deployment: Object) -> RolloutBounds:
    desired = replicas(deployment)
    if not is_rolling(deployment):
        return RolloutBounds(0, 0)
    rolling = get(deployment, "spec", "strategy", "rollingUpdate", default={})
    surge = part_of(rolling.get("maxSurge", 0), desired, up=True)
    unavailable = part_of(rolling.get("maxUnavailable", 0), desired, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # Both percentages were rounded to 0: the rollout could not proceed.
    return RolloutBounds(surge, min(unavailable, desired))


def new_replicas(deployment: Object, current_total: int, new: int) -> int:
    """The next size of the new set. `current_total` is the size of all sets together, `new` the new set's."""
    desired = replicas(deployment)
    if not is_rolling(deployment):
        return desired
    room = desired + bounds(deployment).surge - current_total
    return new if room <= 0 else new + min(room, desired - new)


# Rolling


def roll(deployment: Object, sets: DeploymentReplicaSets) -> list[ReplicaSetScale]:
    """The next step of a rolling update; empty if none is possible or needed now."""
    assert sets.new is not None
    desired, new = replicas(deployment), replicas(sets.new)
    if new > desired:
        return [ReplicaSetScale(sets.new, desired)]
    if new < desired and (next_ := new_replicas(deployment, total(sets.all), new)) != new:
        return [ReplicaSetScale(sets.new, next_)]
    return _shrink_old(deployment, sets, sets.new)


def _shrink_old(deployment: Object, sets: DeploymentReplicaSets, new: Object) -> list[ReplicaSetScale]:
    minimum = replicas(deployment) - bounds(deployment).unavailable
    missing = replicas(new) - available(new)
    budget = total(sets.all) - minimum - missing
    if budget <= 0:
        return []
    sizes = {id(each): replicas(each) for each in sets.old}
    # Remove unavailable pods first: that does not reduce availability.
    for each in sets.old:
        take = min(budget, max(0, replicas(each) - available(each)))
        sizes[id(each)] -= take
        budget -= take
    spare = sum(available(each) for each in sets.all) - minimum
    for each in sets.old:
        take = min(max(0, spare), sizes[id(each)])
        sizes[id(each)] -= take
        spare -= take
    return [ReplicaSetScale(each, sizes[id(each)]) for each in sets.old if sizes[id(each)] != replicas(each)]


# Recreating


def retire(old: Sequence[Object]) -> list[ReplicaSetScale]:
    """Scales all old sets to zero."""
    return [ReplicaSetScale(each, 0) for each in old if replicas(each)]


# Scaling


def is_resized(deployment: Object, sets: DeploymentReplicaSets) -> bool:
    """Whether the deployment's size differs from the size noted in its sets' annotations."""
    desired = replicas(deployment)
    noted = (annotated(each, DESIRED) for each in sets.all if replicas(each))
    return any(each is not None and each != desired for each in noted)


def resize(deployment: Object, sets: DeploymentReplicaSets) -> list[ReplicaSetScale]:
    """Scales the sets to the deployment's size: a single active set fully, several in proportion. Sets whose
    size stays are included, because their annotations must be updated."""
    active = [each for each in sets.all if replicas(each)]
    desired = replicas(deployment)
    if len(active) <= 1:
        latest = sets.new if sets.new is not None else (sets.old[-1] if sets.old else None)
        only = active[0] if active else latest
        return [ReplicaSetScale(only, desired)] if only is not None else []
    if sets.new is not None and _is_saturated(deployment, sets.new):
        return retire(sets.old)
    if is_rolling(deployment):
        return _in_proportion(deployment, active)
    shrunk = [ReplicaSetScale(sets.new, min(desired, replicas(sets.new)))] if sets.new is not None else []
    return [*retire(sets.old), *shrunk]


def _is_saturated(deployment: Object, new: Object) -> bool:
    desired = replicas(deployment)
    return replicas(new) == desired == available(new) and annotated(new, DESIRED) == desired


def _in_proportion(deployment: Object, active: Sequence[Object]) -> list[ReplicaSetScale]:
    desired = replicas(deployment)
    whole = desired + bounds(deployment).surge if desired else 0
    to_add = whole - total(active)
    # Largest first; among equals the newest when scaling up, the oldest when scaling down.
    ranked = sorted(active, key=age, reverse=to_add > 0)
    ranked.sort(key=replicas, reverse=True)
    result, added = [], 0
    for each in ranked:
        share = _share(deployment, each, whole)
        share = max(0, min(share, to_add - added)) if to_add > 0 else min(0, max(share, to_add - added))
        added += share
        result.append(ReplicaSetScale(each, replicas(each) + share))
    result[0] = ReplicaSetScale(result[0].set, max(0, result[0].replicas + to_add - added))
    return result


def _share(deployment: Object, replica_set: Object, whole: int) -> int:
    """The change of a set's size in proportion to the deployment's change."""
    size = replicas(replica_set)
    before = annotated(replica_set, MAXIMUM) or get(deployment, "status", "replicas", default=0)
    if not before:
        return 0
    return math.floor(size * whole / before + 0.5) - size
