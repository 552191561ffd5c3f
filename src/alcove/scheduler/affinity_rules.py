"""Rules: what placed pods ask about others, counted by node.

A pod that must be far from certain pods keeps them away from where it is, and one that wishes to be
near some attracts them: whoever is being placed has to heed the rules of those already there.
"""

from __future__ import annotations

from msgspec import Struct

from alcove.scheduler.podterms import PodTerm
from alcove.scheduler.shapes import PodShape
from alcove.scheduler.slotcounts import SlotCounts

NEAR_WEIGHT = 1
"""What a pod's hard affinity is worth to those it wants near: kube-scheduler's hardPodAffinityWeight."""


class RuleKey(Struct, frozen=True):
    term: PodTerm
    weight: int
    """How much it attracts those it speaks of (below zero: repels); 0: keeps them away altogether."""


class AffinityRule:
    __slots__ = ("coming", "key", "owners", "users")

    def __init__(self, key: RuleKey) -> None:
        self.key = key
        self.owners = SlotCounts()
        """Placed pods that have the rule; once for each time they have it."""
        self.coming = SlotCounts()
        """Those that room is being made for."""
        self.users = 0


def rules_of(shape: PodShape) -> list[RuleKey]:
    affinity = shape.affinity
    return [
        *(RuleKey(term, 0) for term in affinity.far),
        *(RuleKey(term, NEAR_WEIGHT) for term in affinity.near),
        *(RuleKey(wish.term, wish.weight) for wish in affinity.preferred if wish.weight),
    ]
