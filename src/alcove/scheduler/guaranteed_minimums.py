"""Guaranteed minimums: what each tenant is due before others, and what is reserved for it.

Nine tenths of the cluster's capacity of a resource can be guaranteed. While the minimums do not exceed that
in total, each is reserved in full: other tenants cannot use it, whether its tenant has pods or not. Minimums
that exceed it cannot all be met, and must not stop all other tenants:

- each tenant is due the same fraction of its minimum, so that the total is what can be guaranteed. Tenants below
  what they are due come first;
- the reserved amount shrinks by the excess: at twice what can be guaranteed, nothing is reserved.

A minimum is limited to the tenant's quota. A minimum above the cluster's capacity counts as the capacity
among the others' minimums, and with its full value in the excess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.kinds.core.sleep import is_asleep
from alcove.api.objects import Object, get
from alcove.scheduler import resource_amounts
from alcove.scheduler.resource_amounts import Amounts

GUARANTEED_FRACTION = Fraction(9, 10)
"""Fraction of each resource that can be guaranteed: a tenth is always shared by weight alone."""

PREEMPTS = "scheduling.alcove.io/preempts-tenants"
"""Ring0's policy, on the Tenant: names of tenants (comma-separated) whose pods of lower priority this
tenant's pods may evict."""
_REQUESTS = "requests."
_COUNT = "count/"


class TenantLimits(Struct, frozen=True):
    weight: int = 1
    most: Mapping[str, int] = {}
    """Quota: maximum total requests of the tenant's pods, by resource."""
    least: Mapping[str, int] = {}
    """Guaranteed minimum, by resource."""
    is_asleep: bool = False
    """Whether the tenant sleeps: its pods are not placed."""


class GuaranteedMinimum(Struct, frozen=True):
    """One tenant's minimum, as far as this cluster can meet it."""

    due: Mapping[str, int] = {}
    """Below this usage, the tenant's pods precede others'."""
    kept: Mapping[str, int] = {}
    """Amount that is reserved until the tenant uses it."""


NO_MINIMUM = GuaranteedMinimum()


def hold(limits: Iterable[TenantLimits], capacity: Mapping[str, int]) -> list[GuaranteedMinimum]:
    """The tenants' minimums as far as they can be met together, in the same order."""
    requested = [_limited_minimum(each) for each in limits]
    due: list[Amounts] = [{} for _ in requested]
    kept: list[Amounts] = [{} for _ in requested]
    for resource in {name for each in requested for name in each}:
        guaranteed = int(capacity.get(resource, 0) * GUARANTEED_FRACTION)
        minimums = [each.get(resource, 0) for each in requested]
        # The tenants' fractions of `guaranteed`, and how much of it is reserved after subtracting the excess.
        total = max(guaranteed, sum(min(amount, guaranteed) for amount in minimums), 1)
        reserved = max(0, guaranteed - max(0, sum(minimums) - guaranteed))
        for number, amount in enumerate(minimums):
            if amount:
                due[number][resource] = min(amount, guaranteed) * guaranteed // total
                kept[number][resource] = min(amount, guaranteed) * reserved // total
    return [GuaranteedMinimum(one, other) for one, other in zip(due, kept, strict=True)]


def _limited_minimum(limits: TenantLimits) -> Amounts:
    return {name: min(amount, limits.most.get(name, amount)) for name, amount in limits.least.items()}


def read_limits(tenant: Object) -> TenantLimits:
    spec = tenant.get("spec") or {}
    weight = spec.get("weight")
    return TenantLimits(
        weight if isinstance(weight, int) and weight > 0 else 1,
        _requested(get(spec, "quota", "hard")),
        _requested(get(spec, "quota", "min")),
        is_asleep(tenant),
    )


def _requested(quota: Object | None) -> Amounts:
    """The quota's resources that scheduling a pod uses, by the names in pod requests."""
    amounts: Amounts = {}
    for name, value in (quota or {}).items():
        if name.startswith("limits."):
            continue
        resource = name.removeprefix(_REQUESTS).removeprefix(_COUNT)
        read = resource_amounts.read_valid({resource: value})
        if resource in read:
            amounts[resource] = min(read[resource], amounts.get(resource, read[resource]))
    return amounts


def read_victims(tenant: Object) -> tuple[TenantId, ...]:
    names = objects.annotations(tenant).get(PREEMPTS, "")
    return tuple(TenantId(name.strip()) for name in names.split(",") if name.strip())
