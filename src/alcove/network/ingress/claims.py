"""Whose a host name is. Pure.

A name is one tenant's at a time: of who had it, as long as it wants it; else of the tenant whose Ingress for it is
the oldest. A name with a star covers those under it: they are nobody else's, but for those that were so before. What
was decided is kept where no tenant can write: in an annotation of ring0's Tenant objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.objects import Object

HOSTS_ANNOTATION = "ingress.alcove.io/hosts"
HOSTS_MAX = 2_000
"""Of one tenant: what fits into an annotation."""


class HostClaim(Struct, frozen=True, order=True):
    """The smallest is the oldest."""

    created: str
    uid: str
    tenant: TenantId


def winner(holder: TenantId | None, claims: Iterable[HostClaim]) -> TenantId | None:
    found = sorted(claims)
    if any(claim.tenant == holder for claim in found):
        return holder
    return found[0].tenant if found else None


def hosts_of(tenant: Object) -> frozenset[str]:
    """Names that are the tenant's, as ring0 has noted it."""
    return frozenset(objects.annotations(tenant).get(HOSTS_ANNOTATION, "").split())


def noted(hosts: Iterable[str]) -> str:
    return " ".join(sorted(hosts))


def holders(tenants: Iterable[Object]) -> dict[str, TenantId]:
    """Who has which name. Should two be noted for one (nobody but ring0 can), the older tenant has it."""
    found: dict[str, TenantId] = {}
    for tenant in sorted(
        tenants, key=lambda each: (each["metadata"].get("creationTimestamp", ""), objects.name(each))
    ):
        for host in hosts_of(tenant):
            found.setdefault(host, TenantId(objects.name(tenant)))
    return found


def star_of(host: str) -> str:
    """The name with a star that covers the host: its first label, and only that, may be anything."""
    return "*." + host.partition(".")[2]


def _is_covered(
    tenant: TenantId, host: str, held: Mapping[str, TenantId], claims: Mapping[str, list[HostClaim]]
) -> bool:
    """Whether another tenant has, or asked earlier for, the name with a star that the host is under."""
    star = star_of(host)
    if star == host or held.get(host) == tenant:
        return False
    if star in held:
        return held[star] != tenant
    rivals = sorted(claims.get(star, ()))
    return bool(rivals) and rivals[0].tenant != tenant and rivals[0] < min(claims[host])


def entitled(
    tenant: TenantId,
    wanted: Iterable[str],
    held: Mapping[str, TenantId],
    claims: Mapping[str, list[HostClaim]],
    room: int = HOSTS_MAX,
) -> frozenset[str]:
    """Of the names a tenant wants, those that are to be its own, `room` of them at most. `claims` are everybody's, by
    name, and also of the names with a star that cover the wanted ones."""
    won = [
        host
        for host in wanted
        if winner(held.get(host), claims[host]) == tenant and not _is_covered(tenant, host, held, claims)
    ]
    # Those it has go on: a new one too many is what does not fit.
    won.sort(key=lambda host: (held.get(host) != tenant, host))
    return frozenset(won[: max(room, 0)])
