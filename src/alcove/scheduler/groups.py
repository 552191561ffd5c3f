"""Groups: pods of one tenant that no selector can tell apart, with their number on each node.

Selectors (of affinity terms and spread constraints) are matched once against groups, not against pods:
placing a pod then only increments the counts of its group's selections.
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
        """Placed pods that are being deleted."""
        self.nominated = SlotCounts()
        """Pods nominated for nodes."""
        self.selections: list[PodSelection] = []
        """Selections that match this group."""
        self.rules: list[AffinityRule] = []
        """Rules of other pods that match this group."""
        self.rules_at = 0
        """Version of the tenant's rules for which `rules` is valid."""
        self.pods = 0
        """Number of pods in the group."""
