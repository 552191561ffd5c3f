"""Disks that a node cannot share between pods, and claims that only one pod may use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import Cause
from alcove.scheduler.filters.base import Filter, Refusal, Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.world import World

ONE_POD = "ReadWriteOncePod"
DISK_TAKEN = "node(s) had no available disk"
CLAIM_TAKEN = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"


class VolumeRestrictions(Filter):
    name = "VolumeRestrictions"
    scope = Scope.WORLD
    is_curable = True
    cured_by = Cause.NODE_ADDED | Cause.ROOM | Cause.POD_GONE | Cause.STORAGE

    def applies(self, world: World, pod: Pod) -> bool:
        return bool(pod.shape.disks or pod.shape.claims)

    def fault(self, world: World, pod: Pod) -> str:
        claims = world.storage(pod.tenant).claims
        for use in pod.shape.claims:
            if not use.is_ephemeral and (pod.namespace, use.name) not in claims:
                return f'persistentvolumeclaim "{use.name}" not found'
        return ""

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        if _is_claim_taken(world, pod):
            return np.zeros(len(world.nodes.is_alive[rows]), dtype=np.bool_)
        chosen: Bools = world.disks.available(world.nodes.size, pod.shape.disks)[rows]
        return chosen

    def refusals(self, world: World, pod: Pod) -> Iterator[Refusal]:
        free = world.disks.available(world.nodes.size, pod.shape.disks)
        yield Refusal(DISK_TAKEN, ~free, True)
        if _is_claim_taken(world, pod):
            yield Refusal(CLAIM_TAKEN, free, True)


def _is_claim_taken(world: World, pod: Pod) -> bool:
    storage = world.storage(pod.tenant)
    for use in pod.shape.claims:
        claim = storage.claims.get((pod.namespace, use.name))
        if claim is not None and ONE_POD in claim.modes and storage.users[claim.key] > 0:
            return True
    return False
