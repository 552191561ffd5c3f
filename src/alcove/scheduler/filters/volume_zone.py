"""Bound volumes that say their zone or region can be used only there."""

from __future__ import annotations

import numpy as np

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import Cause
from alcove.scheduler.filters.base import Filter, Scope
from alcove.scheduler.nodeselectors import Requirement
from alcove.scheduler.pods import Pod
from alcove.scheduler.storage import ZONE_LABELS, modern
from alcove.scheduler.world import World


class VolumeZone(Filter):
    name = "VolumeZone"
    scope = Scope.WORLD
    reason = "node(s) had no available volume zone"
    cured_by = Cause.NODE_ADDED | Cause.NODE_RELABELED | Cause.STORAGE

    def applies(self, world: World, pod: Pod) -> bool:
        return bool(pod.shape.claims)

    def fault(self, world: World, pod: Pod) -> str:
        storage = world.storage(pod.tenant)
        for use in pod.shape.claims:
            claim = storage.claims.get((pod.namespace, use.name))
            if claim is not None and claim.volume and claim.volume not in storage.volumes:
                return f'persistentvolume "{claim.volume}" not found'
        return ""

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        """A node without any zone label is taken to be in every zone."""
        nodes = world.nodes
        zoneless = np.ones(len(nodes.is_alive[rows]), dtype=np.bool_)
        for key in ZONE_LABELS:
            zoneless &= ~Requirement(key, "Exists", ()).holds(nodes, rows)
        matching = np.ones_like(zoneless)
        for zone in _zones(world, pod):
            has_old = Requirement(zone.key, "Exists", ()).holds(nodes, rows)
            today = Requirement(modern(zone.key), "In", zone.values)
            matching &= np.where(has_old, zone.holds(nodes, rows), today.holds(nodes, rows))
        return zoneless | matching


def _zones(world: World, pod: Pod) -> list[Requirement]:
    storage = world.storage(pod.tenant)
    found: list[Requirement] = []
    for use in pod.shape.claims:
        claim = storage.claims.get((pod.namespace, use.name))
        volume = storage.volumes.get(claim.volume) if claim is not None else None
        found += volume.zones if volume is not None else ()
    return found
