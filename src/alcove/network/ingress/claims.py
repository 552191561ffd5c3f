"""Decides which tenant holds a host name. Pure: no I/O.

At most one tenant holds a name: the current holder as long as one of its Ingresses has the name, else the
tenant whose Ingress for it is the oldest. A wildcard name covers the names under it: no other tenant can get
those, but names that another tenant held before stay with it. The decision is stored where no tenant can
write: in an annotation of ring0's Tenant objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.objects import Object

HOSTS_ANNOTATION = "ingress.alcove.io/hosts"
HOSTS_MAX = 2_000
"""Maximum number of names per tenant, limited by the size of an annotation."""


class HostClaim(Struct, frozen=True, order=True):
    """An Ingress that has the name; sorts by age, the oldest first."""

    created: str
    uid: str
    tenant: TenantId


def winner(holder: TenantId | None, claims: Iterable[HostClaim]) -> TenantId | None:
    """The tenant that gets the name: the holder if it still has a claim, else the oldest claim's tenant."""
    by_age = sorted(claims)
    if any(claim.tenant == holder for claim in by_age):
        return holder
    return by_age[0].tenant if by_age else None


def hosts_of(tenant: Object) -> frozenset[str]:
    """The names that the tenant holds, from the annotation of its Tenant object."""
    return frozenset(objects.annotations(tenant).get(HOSTS_ANNOTATION, "").split())


def noted(hosts: Iterable[str]) -> str:
    """The annotation's value for these names."""
    return " ".join(sorted(hosts))


def holders(tenants: Iterable[Object]) -> dict[str, TenantId]:
    """The holder of each name. If ring0 wrote a name to two tenants, the older one holds it."""
    tenants_by_host: dict[str, TenantId] = {}
    for tenant in sorted(
        tenants, key=lambda each: (each["metadata"].get("creationTimestamp", ""), objects.name(each))
    ):
        for host in hosts_of(tenant):
            tenants_by_host.setdefault(host, TenantId(objects.name(tenant)))
    return tenants_by_host


def star_of(host: str) -> str:
    """The wildcard name that covers the host: the wildcard stands for exactly the first label."""
    return "*." + host.partition(".")[2]


def _is_covered(
    tenant: TenantId, host: str, held: Mapping[str, TenantId], claims: Mapping[str, list[HostClaim]]
) -> bool:
    """Whether another tenant holds, or has an older claim for, the wildcard name that covers the host."""
    wildcard = star_of(host)
    if wildcard == host or held.get(host) == tenant:
        return False
    if wildcard in held:
        return held[wildcard] != tenant
    rivals = sorted(claims.get(wildcard, ()))
    return bool(rivals) and rivals[0].tenant != tenant and rivals[0] < min(claims[host])


def entitled(
    tenant: TenantId,
    requested: Iterable[str],
    held: Mapping[str, TenantId],
    claims: Mapping[str, list[HostClaim]],
    room: int = HOSTS_MAX,
) -> frozenset[str]:
    """The requested names that the tenant gets, at most `room`. `claims` has the claims of all tenants by
    name, including those for the wildcard names that cover the requested ones."""
    granted = [
        host
        for host in requested
        if winner(held.get(host), claims[host]) == tenant and not _is_covered(tenant, host, held, claims)
    ]
    # Names that the tenant already holds come first, so that only new ones exceed the limit.
    granted.sort(key=lambda host: (held.get(host) != tenant, host))
    return frozenset(granted[: max(room, 0)])
