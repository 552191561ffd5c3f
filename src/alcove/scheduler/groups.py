"""Groups: pods of one tenant that no selector can tell apart, with their number on each node.

Selectors (of affinity terms and spread constraints) are matched once against groups, not against pods:
placing a pod then only increments the counts of its group's selections.

Affinity is symmetric: required anti-affinity of a placed pod repels matching pods, and preferred affinity
attracts them. So a pod that is being placed is subject to the affinity rules of the pods already placed,
which are also counted by node.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from alcove.api.selectors import EVERYTHING
from alcove.scheduler.podterms import PodTerm, SelectedPods
from alcove.scheduler.shapes import PodShape
from alcove.scheduler.slotcounts import SlotCounts

NEAR_WEIGHT = 1
"""Score weight of a placed pod's required affinity: kube-scheduler's hardPodAffinityWeight."""

NamespaceLabels = dict[str, dict[str, str]]


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


def picks(picked: SelectedPods, group: PodGroup, namespaces: NamespaceLabels) -> bool:
    """Whether the selection matches the group's pods."""
    if picked.owner and picked.owner != group.owner:
        return False
    if not _is_in(picked, group.namespace, namespaces) or not picked.selector.matches(group.labels):
        return False
    return all(picks(other, group, namespaces) for other in picked.also)


def _is_in(picked: SelectedPods, namespace: str, namespaces: NamespaceLabels) -> bool:
    if namespace in picked.namespaces:
        return True
    namespace_selector = picked.namespace_selector
    if namespace_selector is None:
        return False
    return namespace_selector is EVERYTHING or namespace_selector.matches(namespaces.get(namespace, {}))


class PodSelection:
    """Counts of the matching groups' pods."""

    __slots__ = ("leaving", "nominated", "picked", "placed", "users")

    def __init__(self, picked: SelectedPods) -> None:
        self.picked = picked
        self.placed = SlotCounts()
        self.leaving = SlotCounts()
        self.nominated = SlotCounts()
        self.users = 0
        """Number of shapes that use it."""

    def join(self, group: PodGroup, sign: int = 1) -> None:
        """Adds the group's counts (or, with -1, subtracts them)."""
        for totals, counts in (
            (self.placed, group.placed),
            (self.leaving, group.leaving),
            (self.nominated, group.nominated),
        ):
            for slot, count in counts.items():
                totals.add(slot, sign * count)


class RuleKey(Struct, frozen=True):
    term: PodTerm
    weight: int
    """Score weight for matching pods (negative: repels them); 0 forbids them."""


class AffinityRule:
    __slots__ = ("coming", "key", "owners", "users")

    def __init__(self, key: RuleKey) -> None:
        self.key = key
        self.owners = SlotCounts()
        """Placed pods with the rule, counted once per occurrence."""
        self.coming = SlotCounts()
        """Nominated pods with the rule."""
        self.users = 0


def rules_of(shape: PodShape) -> list[RuleKey]:
    affinity = shape.affinity
    return [
        *(RuleKey(term, 0) for term in affinity.far),
        *(RuleKey(term, NEAR_WEIGHT) for term in affinity.near),
        *(
            RuleKey(preference.term, preference.weight)
            for preference in affinity.preferred
            if preference.weight
        ),
    ]
