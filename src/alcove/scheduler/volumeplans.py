"""Which volumes a pod's claims would get on each node: those they are bound to, free ones, or new ones.

Claims that wait for a pod (WaitForFirstConsumer) are matched here, smallest first, each with the smallest
volume that fits and is reachable from the node; claims without a match are provisioned there, if their class
can.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.snapshot import NodeSnapshot
from alcove.scheduler.storage import ClaimKey, SchedulerVolume, TenantStorage, VolumeClaim


class VolumePlan(Struct, frozen=True):
    """Volumes to bind and to provision before the pod can be bound."""

    binds: tuple[tuple[str, ClaimKey], ...] = ()
    """(volume, claim)"""
    provisions: tuple[ClaimKey, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.binds or self.provisions)


NO_VOLUMES = VolumePlan()


class PodClaims(Struct):
    bound: list[VolumeClaim]
    waiting: list[VolumeClaim]
    unbound: list[VolumeClaim]
    """Claims that must be bound before the pod is scheduled (Immediate)."""


def claims_of(storage: TenantStorage, pod: SchedulerPod) -> PodClaims:
    """The pod's claims, all of which must exist."""
    found = PodClaims([], [], [])
    for use in pod.shape.claims:
        claim = storage.claims[(pod.namespace, use.name)]
        chosen = storage.classes.get(claim.storage_class)
        if claim.is_bound:
            found.bound.append(claim)
        elif chosen is not None and chosen.waits and not claim.volume:
            found.waiting.append(claim)
        else:
            found.unbound.append(claim)
    found.waiting.sort(key=lambda claim: claim.size)
    return found


class ClaimMatch(Struct):
    """The match of waiting claims on each node."""

    is_met: Bools
    volumes: list[SchedulerVolume]
    chosen: list[Ints]
    """For each claim, the index in `volumes` that each node would use; -1 for a new volume."""


def match(cache: SchedulerCache, pod: SchedulerPod, waiting: list[VolumeClaim], rows: Rows) -> ClaimMatch:
    storage, nodes = cache.storage(pod.tenant), cache.nodes
    count = len(nodes.is_alive[rows])
    found = ClaimMatch(np.ones(count, dtype=np.bool_), [], [])
    assigned: dict[str, Bools] = {}
    for claim in waiting:
        numbers = np.full(count, -1, dtype=np.int64)
        found.chosen.append(numbers)
        if claim.selected_node:
            found.is_met &= _is_there(nodes, claim.selected_node, rows)
        else:
            _choose(storage, nodes, claim, rows, found, numbers, assigned)
        found.is_met &= (numbers >= 0) | _can_provision(storage, nodes, claim, rows, count)
    return found


def _is_there(nodes: NodeSnapshot, name: str, rows: Rows) -> Bools:
    is_there = np.zeros(nodes.size, dtype=np.bool_)
    slot = nodes.slot(name)
    if slot is not None:
        is_there[slot] = True
    chosen: Bools = is_there[rows]
    return chosen


def _choose(
    storage: TenantStorage,
    nodes: NodeSnapshot,
    claim: VolumeClaim,
    rows: Rows,
    found: ClaimMatch,
    numbers: Ints,
    assigned: dict[str, Bools],
) -> None:
    """Assigns each node the smallest volume that is reachable and not assigned to another claim there."""
    for volume in _candidates(storage, claim):
        free = numbers < 0
        if volume.nodes is not None:
            free &= volume.nodes.matches(nodes, rows)
        if volume.name in assigned:
            free &= ~assigned[volume.name]
        numbers[free] = len(found.volumes)
        found.volumes.append(volume)
        assigned[volume.name] = assigned[volume.name] | free if volume.name in assigned else free
        if bool((numbers >= 0).all()):
            return


def _candidates(storage: TenantStorage, claim: VolumeClaim) -> list[SchedulerVolume]:
    """Volumes that match the claim, smallest first; only the one bound or promised to it, if there is one."""
    fitting = [
        volume
        for volume in storage.volumes_of_class(claim.storage_class)
        if volume.size >= claim.size
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.is_leaving
    ]
    reserved = [volume for volume in fitting if storage.is_for(volume, claim)]
    if reserved:
        return reserved[:1]
    free = [
        volume
        for volume in fitting
        if not storage.is_taken(volume)
        and volume.is_available
        and claim.modes <= volume.modes
        and (claim.selector is None or claim.selector.matches(volume.labels))
    ]
    return sorted(free, key=lambda volume: volume.size)


def _can_provision(
    storage: TenantStorage, nodes: NodeSnapshot, claim: VolumeClaim, rows: Rows, count: int
) -> Bools:
    chosen = storage.classes[claim.storage_class]
    if not chosen.provisions:
        return np.zeros(count, dtype=np.bool_)
    if chosen.nodes is None:
        return np.ones(count, dtype=np.bool_)
    return chosen.nodes.matches(nodes, rows)


def plan(cache: SchedulerCache, pod: SchedulerPod, slot: int) -> VolumePlan:
    """The volume plan of a pod for a feasible node."""
    waiting = claims_of(cache.storage(pod.tenant), pod).waiting
    found = match(cache, pod, waiting, np.array([slot], dtype=np.intp))
    binds: list[tuple[str, ClaimKey]] = []
    provisions: list[ClaimKey] = []
    for claim, numbers in zip(waiting, found.chosen, strict=True):
        number = int(numbers[0])
        if number < 0:
            provisions.append(claim.key)
        else:
            binds.append((found.volumes[number].name, claim.key))
    return VolumePlan(tuple(binds), tuple(provisions))
