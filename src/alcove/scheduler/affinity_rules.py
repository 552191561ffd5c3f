"""Affinity rules of placed pods, counted by node.

Affinity is symmetric: required anti-affinity of a placed pod repels matching pods, and preferred affinity
attracts them. So a pod that is being placed is subject to the rules of the pods already placed.
"""

from __future__ import annotations

from msgspec import Struct

from alcove.scheduler.podterms import PodTerm
from alcove.scheduler.shapes import PodShape
from alcove.scheduler.slotcounts import SlotCounts

NEAR_WEIGHT = 1
"""Score weight of a placed pod's required affinity: kube-scheduler's hardPodAffinityWeight."""


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
