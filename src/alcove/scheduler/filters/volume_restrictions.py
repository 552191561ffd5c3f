"""Disks that pods on a node cannot share, and claims with ReadWriteOncePod."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope, Refusal
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache

ONE_POD = "ReadWriteOncePod"
DISK_TAKEN = "node(s) had no available disk"
CLAIM_TAKEN = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"


class VolumeRestrictions(Filter):
    name = "VolumeRestrictions"
    scope = FilterScope.WORLD
    is_curable = True
    cured_by = WakeCause.NODE_ADDED | WakeCause.ROOM | WakeCause.POD_GONE | WakeCause.STORAGE

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.disks or pod.shape.claims)

    def fault(self, cache: SchedulerCache, pod: SchedulerPod) -> str:
        claims = cache.storage(pod.tenant).claims
        for use in pod.shape.claims:
            if not use.is_ephemeral and (pod.namespace, use.name) not in claims:
                return f'persistentvolumeclaim "{use.name}" not found'
        return ""

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        if _is_claim_taken(cache, pod):
            return np.zeros(len(cache.nodes.is_alive[rows]), dtype=np.bool_)
        chosen: Bools = cache.disks.available(cache.nodes.size, pod.shape.disks)[rows]
        return chosen

    def refusals(self, cache: SchedulerCache, pod: SchedulerPod) -> Iterator[Refusal]:
        free = cache.disks.available(cache.nodes.size, pod.shape.disks)
        yield Refusal(DISK_TAKEN, ~free, True)
        if _is_claim_taken(cache, pod):
            yield Refusal(CLAIM_TAKEN, free, True)


def _is_claim_taken(cache: SchedulerCache, pod: SchedulerPod) -> bool:
    storage = cache.storage(pod.tenant)
    for use in pod.shape.claims:
        claim = storage.claims.get((pod.namespace, use.name))
        if claim is not None and ONE_POD in claim.modes and storage.users[claim.key] > 0:
            return True
    return False
