"""Scheduling fields of `Tenant` objects: weight, quota, guaranteed minimum, tenants they may preempt."""

from alcove.api.ids import TenantId
from alcove.api.objects import Object, annotations, get
from alcove.scheduler import resource_amounts
from alcove.scheduler.guaranteed_minimums import TenantLimits
from alcove.scheduler.resource_amounts import Amounts

PREEMPTS = "scheduling.alcove.io/preempts-tenants"
"""Ring0's policy, on the Tenant: names of tenants (comma-separated) whose pods of lower priority this
tenant's pods may evict."""
_REQUESTS = "requests."
_COUNT = "count/"


def read_limits(tenant: Object) -> TenantLimits:
    spec = tenant.get("spec") or {}
    weight = spec.get("weight")
    return TenantLimits(
        weight if isinstance(weight, int) and weight > 0 else 1,
        _requested(get(spec, "quota", "hard")),
        _requested(get(spec, "quota", "min")),
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
    names = annotations(tenant).get(PREEMPTS, "")
    return tuple(TenantId(name.strip()) for name in names.split(",") if name.strip())
