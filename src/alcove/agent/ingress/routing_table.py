"""Where a request leads, by its host and path. Pure, and never changed: another state of things is another table.

A host is one tenant's (`network/ingress/claims.py`), so all that is found for it is that tenant's. The longest
path counts, an exact one before a prefix of the same length, the older Ingress' before the younger's. What no path
of the host takes goes to the tenant's rules without a host, and at last to its default backend.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.client.keys import TenantKey
from alcove.network.ingress.claims import star_of
from alcove.network.ingress.ingress_spec import ANY, DesiredIngress, IngressBackend, PathType


class IngressTarget(Struct, frozen=True):
    """A service's port in a network: connections are to one of `addresses`."""

    space: TenantKey
    network: str
    addresses: tuple[tuple[str, int], ...]
    """Empty: there is no such service, or nobody behind it."""
    what: str = ""
    """The service, as its owner knows it."""


class _Site(Struct, frozen=True):
    exact: dict[str, IngressTarget]
    prefixes: tuple[tuple[str, IngressTarget], ...]
    """Longest first, without the slash at the end."""

    def find(self, path: str) -> IngressTarget | None:
        if path in self.exact:
            return self.exact[path]
        for prefix, target in self.prefixes:
            if path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == "/"):
                return target
        return None


class TenantIngresses(Struct, frozen=True):
    """A tenant's Ingresses, as far as this node serves them, with what their backends are."""

    space: TenantKey
    ingresses: tuple[DesiredIngress, ...]
    targets: Mapping[tuple[str, str, IngressBackend], IngressTarget]
    """By network, namespace and backend."""

    def target(self, ingress: DesiredIngress, backend: IngressBackend) -> IngressTarget:
        missing = IngressTarget(self.space, ingress.network, (), f"{ingress.namespace}/{backend.service}")
        return self.targets.get((ingress.network, ingress.namespace, backend), missing)


class _Owner(Struct, frozen=True):
    sites: dict[str, _Site]
    """By host, those with a star as they are written."""
    unnamed: _Site
    fallback: IngressTarget | None

    def find(self, host: str, path: str) -> IngressTarget | None:
        site = self.sites.get(host)
        return (site.find(path) if site else None) or self.unnamed.find(path) or self.fallback


class RoutingTable(Struct, frozen=True):
    owners: dict[str, _Owner] = {}
    """By host."""
    unnamed: _Owner | None = None
    """Of ring0, for hosts that nobody has."""

    def find(self, host: str, path: str) -> IngressTarget | None:
        host = host.lower()
        for name in (host, star_of(host)):
            owner = self.owners.get(name)
            if owner is not None:
                return owner.find(name, path)
        return self.unnamed.find(ANY, path) if self.unnamed is not None else None


def compiled(
    tenants: Iterable[TenantIngresses], holders: Mapping[str, TenantId], system: TenantId
) -> RoutingTable:
    """`holders` tells whose each host is; of what others say about it nothing is used."""
    owners: dict[str, _Owner] = {}
    unnamed: _Owner | None = None
    for tenant in tenants:
        owner = _owner(tenant, holders)
        owners |= dict.fromkeys(owner.sites, owner)
        if tenant.space.tenant == system:
            unnamed = owner
    return RoutingTable(owners, unnamed)


def _owner(tenant: TenantIngresses, holders: Mapping[str, TenantId]) -> _Owner:
    paths: dict[str, list[tuple[str, PathType, IngressTarget]]] = {}
    fallback: IngressTarget | None = None
    for ingress in sorted(tenant.ingresses, key=lambda each: each.age):
        for host in ingress.hosts:
            if holders.get(host) == tenant.space.tenant:
                paths.setdefault(host, [])
        for rule in ingress.rules:
            if rule.host == ANY or rule.host in paths:
                target = tenant.target(ingress, rule.backend)
                paths.setdefault(rule.host, []).append((rule.path, rule.path_type, target))
        if fallback is None and ingress.fallback is not None:
            fallback = tenant.target(ingress, ingress.fallback)
    unnamed = _site(paths.pop(ANY, []))
    return _Owner({host: _site(found) for host, found in paths.items()}, unnamed, fallback)


def _site(paths: Iterable[tuple[str, PathType, IngressTarget]]) -> _Site:
    """The first of the same path counts."""
    exact: dict[str, IngressTarget] = {}
    prefixes: dict[str, IngressTarget] = {}
    for path, kind, target in paths:
        if kind is PathType.EXACT:
            exact.setdefault(path, target)
        else:
            prefixes.setdefault(path.rstrip("/"), target)
    return _Site(exact, tuple(sorted(prefixes.items(), key=lambda each: -len(each[0]))))
