"""Each tenant's resource requests as a fraction of all nodes' allocatable resources. Pure.

Counted as the scheduler does: a pod requests the sum of its containers or its largest init container,
whichever is more; terminated pods count nothing. A tenant's share is its largest fraction of any resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from alcove.api import objects, quantity
from alcove.api.objects import Object


class ResourceTotals(Struct, frozen=True):
    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0

    def __add__(self, other: ResourceTotals) -> ResourceTotals:
        return ResourceTotals(
            self.cpu_milli + other.cpu_milli,
            self.memory_bytes + other.memory_bytes,
            self.pods + other.pods,
        )

    def maximum(self, other: ResourceTotals) -> ResourceTotals:
        return ResourceTotals(
            max(self.cpu_milli, other.cpu_milli),
            max(self.memory_bytes, other.memory_bytes),
            max(self.pods, other.pods),
        )


class ShareFraction(Struct, frozen=True):
    """Fractions of the cluster's capacity, between 0 and 1."""

    cpu: float
    memory: float
    pods: float


class TenantRequests(Struct, frozen=True):
    tenant: str
    used: ResourceTotals
    fraction: ShareFraction

    @property
    def dominant(self) -> float:
        return max(self.fraction.cpu, self.fraction.memory, self.fraction.pods)


def capacity(nodes: Iterable[Object]) -> ResourceTotals:
    total = ResourceTotals()
    for node in nodes:
        total += _amounts(objects.get(node, "status", "allocatable", default={}))
    return total


def shares(tenants: Sequence[str], pods: Iterable[Object], total: ResourceTotals) -> list[TenantRequests]:
    """All tenants' requests, the largest share first."""
    used = {tenant: ResourceTotals() for tenant in tenants}
    for pod in pods:
        if objects.get(pod, "status", "phase") not in ("Succeeded", "Failed"):
            tenant = pod["metadata"].get("tenant", "")
            used[tenant] = used.get(tenant, ResourceTotals()) + requested(pod)
    found = [TenantRequests(tenant, amounts, _fraction(amounts, total)) for tenant, amounts in used.items()]
    return sorted(found, key=lambda share: (-share.dominant, share.tenant))


def used(metrics: Iterable[Object]) -> dict[str, ResourceTotals]:
    """Current usage per tenant, from the metrics API's items."""
    found: dict[str, ResourceTotals] = {}
    for item in metrics:
        tenant = item["metadata"].get("tenant", "")
        for container in item.get("containers") or ():
            found[tenant] = found.get(tenant, ResourceTotals()) + _amounts(container.get("usage") or {})
    return found


def requested(pod: Object) -> ResourceTotals:
    total = ResourceTotals(pods=1)
    for container in objects.get(pod, "spec", "containers", default=[]):
        total += _requested(container)
    largest_init = ResourceTotals()
    for container in objects.get(pod, "spec", "initContainers", default=[]):
        if container.get("restartPolicy") == "Always":
            total += _requested(container)
        else:
            largest_init = largest_init.maximum(_requested(container))
    return total.maximum(largest_init) + _amounts(objects.get(pod, "spec", "overhead", default={}))


def _requested(container: Object) -> ResourceTotals:
    return _amounts(objects.get(container, "resources", "requests", default={}))


def _amounts(quantities: Object) -> ResourceTotals:
    return ResourceTotals(
        quantity.milli(quantities.get("cpu", 0)),
        quantity.whole(quantities.get("memory", 0)),
        quantity.whole(quantities.get("pods", 0)),
    )


def _fraction(used: ResourceTotals, total: ResourceTotals) -> ShareFraction:
    return ShareFraction(
        used.cpu_milli / total.cpu_milli if total.cpu_milli else 0.0,
        used.memory_bytes / total.memory_bytes if total.memory_bytes else 0.0,
        used.pods / total.pods if total.pods else 0.0,
    )
