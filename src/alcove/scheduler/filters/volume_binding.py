"""The pod's claims: bound volumes must be reachable from the node, waiting claims must have a match there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alcove.scheduler.arrays import EVERY, Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope, Refusal
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.storage import VolumeClaim
from alcove.scheduler.volumeplans import claims_of, match
from alcove.scheduler.volumesources import ClaimUse

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class VolumeBinding(Filter):
    name = "VolumeBinding"
    scope = FilterScope.WORLD
    cured_by = WakeCause.NODE_ADDED | WakeCause.NODE_RELABELED | WakeCause.STORAGE

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.claims)

    def fault(self, cache: SchedulerCache, pod: SchedulerPod) -> str:
        for use in pod.shape.claims:
            if message := _claim_fault(cache, pod, use):
                return message
        storage = cache.storage(pod.tenant)
        for claim in claims_of(storage, pod).unbound:
            chosen = storage.classes.get(claim.storage_class)
            if chosen is not None and chosen.waits is None:
                return f'VolumeBindingMode not set for StorageClass "{chosen.name}"'
            return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        claims = claims_of(cache.storage(pod.tenant), pod)
        if _is_volume_missing(cache, pod, claims.bound):
            return np.zeros(len(cache.nodes.is_alive[rows]), dtype=np.bool_)
        passing = _reachable(cache, pod, claims.bound, rows)
        if claims.waiting:
            passing &= match(cache, pod, claims.waiting, rows).is_met
        return passing

    def refusals(self, cache: SchedulerCache, pod: SchedulerPod) -> Iterator[Refusal]:
        claims = claims_of(cache.storage(pod.tenant), pod)
        yield Refusal(UNREACHABLE, ~_reachable(cache, pod, claims.bound, EVERY), False)
        yield Refusal(NONE_TO_BIND, ~match(cache, pod, claims.waiting, EVERY).is_met, False)
        if _is_volume_missing(cache, pod, claims.bound):
            yield Refusal(LOST, np.ones(cache.nodes.size, dtype=np.bool_), False)


def _claim_fault(cache: SchedulerCache, pod: SchedulerPod, use: ClaimUse) -> str:
    claim = cache.storage(pod.tenant).claims.get((pod.namespace, use.name))
    if claim is None:
        if use.is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        return f'persistentvolumeclaim "{use.name}" not found'
    if claim.is_lost:
        return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.is_leaving:
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    if use.is_ephemeral and pod.uid not in claim.owners:
        return f"PVC {pod.namespace}/{use.name} was not created for pod {pod.key} (pod is not owner)"
    return ""


def _is_volume_missing(cache: SchedulerCache, pod: SchedulerPod, bound: list[VolumeClaim]) -> bool:
    volumes = cache.storage(pod.tenant).volumes
    return any(claim.volume not in volumes for claim in bound)


def _reachable(cache: SchedulerCache, pod: SchedulerPod, bound: list[VolumeClaim], rows: Rows) -> Bools:
    volumes = cache.storage(pod.tenant).volumes
    passing = np.ones(len(cache.nodes.is_alive[rows]), dtype=np.bool_)
    for claim in bound:
        volume = volumes.get(claim.volume)
        if volume is not None and volume.nodes is not None:
            passing &= volume.nodes.matches(cache.nodes, rows)
    return passing
