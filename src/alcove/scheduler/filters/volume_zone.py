"""Bound volumes with a zone or region label can be used only there."""

from __future__ import annotations

import numpy as np

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.nodeselectors import NodeSelectorRequirement
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.storage import ZONE_LABELS, modern


class VolumeZone(Filter):
    name = "VolumeZone"
    scope = FilterScope.WORLD
    reason = "node(s) had no available volume zone"
    cured_by = WakeCause.NODE_ADDED | WakeCause.NODE_RELABELED | WakeCause.STORAGE

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.claims)

    def fault(self, cache: SchedulerCache, pod: SchedulerPod) -> str:
        storage = cache.storage(pod.tenant)
        for use in pod.shape.claims:
            claim = storage.claims.get((pod.namespace, use.name))
            if claim is not None and claim.volume and claim.volume not in storage.volumes:
                return f'persistentvolume "{claim.volume}" not found'
        return ""

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        """A node without any zone label passes."""
        nodes = cache.nodes
        zoneless = np.ones(len(nodes.is_alive[rows]), dtype=np.bool_)
        for key in ZONE_LABELS:
            zoneless &= ~NodeSelectorRequirement(key, "Exists", ()).holds(nodes, rows)
        matching = np.ones_like(zoneless)
        for zone in _zones(cache, pod):
            has_old = NodeSelectorRequirement(zone.key, "Exists", ()).holds(nodes, rows)
            current = NodeSelectorRequirement(modern(zone.key), "In", zone.values)
            matching &= np.where(has_old, zone.holds(nodes, rows), current.holds(nodes, rows))
        return zoneless | matching


def _zones(cache: SchedulerCache, pod: SchedulerPod) -> list[NodeSelectorRequirement]:
    storage = cache.storage(pod.tenant)
    found: list[NodeSelectorRequirement] = []
    for use in pod.shape.claims:
        claim = storage.claims.get((pod.namespace, use.name))
        volume = storage.volumes.get(claim.volume) if claim is not None else None
        found += volume.zones if volume is not None else ()
    return found
