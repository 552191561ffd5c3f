"""Guaranteed minima: what each tenant is due before others, and what is kept free for it.

Nine tenths of what the cluster has of a resource can be promised. As long as the minima together are no
more than that, each is kept in full: room that others cannot take, whether its tenant has pods or not.
Whatever is promised beyond makes promises that cannot all be held, and must not stop everybody else:

- each tenant is due the same part of its minimum, so that together they are due what can be promised.
  Tenants below what they are due come first;
- by as much as was promised too much, less is kept free: of twice what there is, nothing.

A minimum above the tenant's own ceiling is no more than the ceiling. One above all there is counts as
all there is among the others' minima, and as all it says in what was promised too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from msgspec import Struct

from alcove.scheduler.resource_amounts import Amounts

PROMISED_MOST = Fraction(9, 10)
"""Of each resource: a tenth is always shared by weight alone, so nobody's promise starves the others."""


class TenantLimits(Struct, frozen=True):
    weight: int = 1
    most: Mapping[str, int] = {}
    """The ceiling of what the tenant's pods may request together, by resource."""
    least: Mapping[str, int] = {}
    """What is guaranteed to the tenant."""


class GuaranteedMinimum(Struct, frozen=True):
    """One tenant's, as it can be held in this cluster."""

    due: Mapping[str, int] = {}
    """Below it, the tenant's pods come before others'."""
    kept: Mapping[str, int] = {}
    """So much of it is kept free until the tenant uses it."""


NO_MINIMUM = GuaranteedMinimum()


def hold(limits: Iterable[TenantLimits], capacity: Mapping[str, int]) -> list[GuaranteedMinimum]:
    """The tenants' minima as they can be held together, in the same order."""
    promised = [_promised(each) for each in limits]
    due: list[Amounts] = [{} for _ in promised]
    kept: list[Amounts] = [{} for _ in promised]
    for resource in {name for each in promised for name in each}:
        most = int(capacity.get(resource, 0) * PROMISED_MOST)
        asked = [each.get(resource, 0) for each in promised]
        # What all are due of `most`, in proportion; and how much of it is kept beside what was promised too much.
        together = max(most, sum(min(amount, most) for amount in asked), 1)
        keeping = max(0, most - max(0, sum(asked) - most))
        for number, amount in enumerate(asked):
            if amount:
                due[number][resource] = min(amount, most) * most // together
                kept[number][resource] = min(amount, most) * keeping // together
    return [GuaranteedMinimum(one, other) for one, other in zip(due, kept, strict=True)]


def _promised(limits: TenantLimits) -> Amounts:
    return {name: min(amount, limits.most.get(name, amount)) for name, amount in limits.least.items()}
