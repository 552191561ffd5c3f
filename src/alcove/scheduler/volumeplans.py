"""Which volumes a pod's claims would get on each node: those they are bound to, free ones, or new ones.

Claims that wait for a pod (WaitForFirstConsumer) are matched here, smallest first, each with the
smallest volume that fits and can be reached from the node; what finds none is left to be provisioned
there, if the class can.
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
    """What has to be done about volumes before the pod can be bound."""

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
    """Should have been bound before the pod is placed."""


def claims_of(storage: TenantStorage, pod: SchedulerPod) -> PodClaims:
    """The pod's claims, all of which are there."""
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
    """How waiting claims fare on the nodes asked about."""

    is_met: Bools
    volumes: list[SchedulerVolume]
    chosen: list[Ints]
    """For each claim, which of the volumes each node would use; -1: a new one."""


def match(cache: SchedulerCache, pod: SchedulerPod, waiting: list[VolumeClaim], rows: Rows) -> ClaimMatch:
    storage, nodes = cache.storage(pod.tenant), cache.nodes
    count = len(nodes.is_alive[rows])
    found = ClaimMatch(np.ones(count, dtype=np.bool_), [], [])
    taken: dict[str, Bools] = {}
    for claim in waiting:
        numbers = np.full(count, -1, dtype=np.int64)
        found.chosen.append(numbers)
        if claim.selected_node:
            found.is_met &= _is_there(nodes, claim.selected_node, rows)
        else:
            _choose(storage, nodes, claim, rows, found, numbers, taken)
        found.is_met &= (numbers >= 0) | _can_provision(storage, nodes, claim, rows, count)
    return found


def _is_there(nodes: NodeSnapshot, name: str, rows: Rows) -> Bools:
    there = np.zeros(nodes.size, dtype=np.bool_)
    slot = nodes.slot(name)
    if slot is not None:
        there[slot] = True
    chosen: Bools = there[rows]
    return chosen


def _choose(
    storage: TenantStorage,
    nodes: NodeSnapshot,
    claim: VolumeClaim,
    rows: Rows,
    found: ClaimMatch,
    numbers: Ints,
    taken: dict[str, Bools],
) -> None:
    """Give each node the first volume, in order of size, that it can reach and did not give away."""
    for volume in _candidates(storage, claim):
        free = numbers < 0
        if volume.nodes is not None:
            free &= volume.nodes.matches(nodes, rows)
        if volume.name in taken:
            free &= ~taken[volume.name]
        numbers[free] = len(found.volumes)
        found.volumes.append(volume)
        taken[volume.name] = taken[volume.name] | free if volume.name in taken else free
        if bool((numbers >= 0).all()):
            return


def _candidates(storage: TenantStorage, claim: VolumeClaim) -> list[SchedulerVolume]:
    """Volumes the claim could get, smallest first; or the one that was made for it, and no other."""
    fitting = [
        volume
        for volume in storage.volumes_of_class(claim.storage_class)
        if volume.size >= claim.size
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.is_leaving
    ]
    meant = [volume for volume in fitting if storage.is_for(volume, claim)]
    if meant:
        return meant[:1]
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
    """What is to be done for the pod on a node that passed."""
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
