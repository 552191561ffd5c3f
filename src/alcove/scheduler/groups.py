"""Groups: pods of one tenant that no selector can tell apart, with where they are placed.

Selectors (of affinity terms, of spread constraints) are matched against groups, not pods, and once: a
pod placed on a node then only adds one to the counts its group belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from alcove.scheduler.slotcounts import SlotCounts

if TYPE_CHECKING:
    from alcove.scheduler.affinity_rules import AffinityRule
    from alcove.scheduler.selections import PodSelection


class PodGroup:
    __slots__ = (
        "labels",
        "leaving",
        "namespace",
        "nominated",
        "owner",
        "placed",
        "pods",
        "rules",
        "rules_at",
        "selections",
    )

    def __init__(self, namespace: str, labels: Mapping[str, str], owner: str) -> None:
        self.namespace = namespace
        self.labels = labels
        self.owner = owner
        self.placed = SlotCounts()
        self.leaving = SlotCounts()
        """Of those placed, the ones that are being deleted."""
        self.nominated = SlotCounts()
        """Not placed, but room is made for them there."""
        self.selections: list[PodSelection] = []
        """Which choices of pods this group is part of."""
        self.rules: list[AffinityRule] = []
        """Which rules of other pods speak of this group."""
        self.rules_at = 0
        """As of which change of the tenant's rules."""
        self.pods = 0
        """How many pods are of it."""
