"""Decides which tenant owns a host name: the one that ring0 granted it to. Pure: no I/O.

The grants are `spec.domains` of ring0's Tenant objects, which no tenant can write. A grant is an exact name,
or a wildcard for all names under a domain: `*.acme.example` grants `a.acme.example`, `b.a.acme.example` and
`*.acme.example`, but not `acme.example`. The most specific grant decides; of two tenants with the same grant
the one that was created first owns it. Names that are granted to nobody belong to ring0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from alcove.api import names, objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object


class _Grantee(Struct, frozen=True, order=True):
    """A tenant that has a grant; sorts by age, the oldest first."""

    created: str
    tenant: TenantId


def domains_of(tenant: Object) -> frozenset[str]:
    """The grants of a Tenant object."""
    return frozenset(objects.get(tenant, "spec", "domains") or ())


def star_of(host: str) -> str:
    """The wildcard host of an Ingress that covers the host: there it stands for exactly the first label."""
    return "*." + host.partition(".")[2]


def _wildcards(host: str) -> Iterator[str]:
    """The wildcard grants that cover the host, the most specific first."""
    _, _, parent = host.partition(".")
    while parent:
        yield f"*.{parent}"
        _, _, parent = parent.partition(".")


class DomainGrants:
    """The grants of all tenants, updated one tenant at a time. Other threads may call `owner` meanwhile."""

    def __init__(self) -> None:
        self._grantees: dict[str, tuple[_Grantee, ...]] = {}
        self._domains: dict[_Grantee, frozenset[str]] = {}
        self._by_tenant: dict[TenantId, _Grantee] = {}

    def put(self, tenant: Object) -> set[TenantId]:
        """Replaces the grants of a tenant. Returns the tenants some of whose names may have another owner
        now, which includes the one that had them before."""
        name = TenantId(objects.name(tenant))
        grantee = _Grantee(tenant["metadata"].get("creationTimestamp") or "", name)
        domains = domains_of(tenant)
        before = self._by_tenant.get(name)
        if before == grantee and self._domains[grantee] == domains:
            return set()
        affected = self.remove(name)
        for domain in domains:
            self._grantees[domain] = tuple(sorted((*self._grantees.get(domain, ()), grantee)))
        if domains:
            self._by_tenant[name], self._domains[grantee] = grantee, domains
        return affected | self._holders(name, domains)

    def remove(self, tenant: TenantId) -> set[TenantId]:
        """Removes all grants of a tenant; returns the same as `put`."""
        grantee = self._by_tenant.pop(tenant, None)
        if grantee is None:
            return set()
        domains = self._domains.pop(grantee)
        for domain in domains:
            others = tuple(each for each in self._grantees[domain] if each != grantee)
            if others:
                self._grantees[domain] = others
            else:
                del self._grantees[domain]
        return self._holders(tenant, domains)

    def _holders(self, tenant: TenantId, domains: Iterable[str]) -> set[TenantId]:
        """The tenant, and those that own names under these domains when it does not."""
        found = {tenant, SYSTEM} if domains else set()
        for domain in domains:
            for each in (domain, *_wildcards(domain)):
                found |= {grantee.tenant for grantee in self._grantees.get(each, ())}
        return found

    def owner(self, host: str) -> TenantId:
        """The owner of a host name, which may be the wildcard host of an Ingress. In lower case."""
        if len(host) <= names.SUBDOMAIN_LENGTH_MAX:  # Longer ones are no names, and costly to take apart.
            for domain in (host, *_wildcards(host)):
                if grantees := self._grantees.get(domain):
                    return grantees[0].tenant
        return SYSTEM

    def has_any(self, tenant: TenantId) -> bool:
        """Whether names of the tenant can be served at all."""
        return tenant == SYSTEM or tenant in self._by_tenant

    def shadowed(self, tenant: TenantId) -> list[tuple[str, TenantId]]:
        """The grants of the tenant that another one has as well and owns, with that owner."""
        grantee = self._by_tenant.get(tenant)
        domains = self._domains[grantee] if grantee is not None else ()
        owners = ((domain, self._grantees[domain][0].tenant) for domain in sorted(domains))
        return [(domain, owner) for domain, owner in owners if owner != tenant]
