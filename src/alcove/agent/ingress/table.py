"""Where a request leads, by its host and path. Pure, and never changed: another state of things is another table.

A host is one tenant's (`network/ingress/claims.py`), so all that is found for it is that tenant's. The longest
path counts, an exact one before a prefix of the same length, the older Ingress' before the younger's. What no path
of the host takes goes to the tenant's rules without a host, and at last to its default backend.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.client.keys import Space
from alcove.network.ingress.claims import star_of
from alcove.network.ingress.wanted import ANY, Backend, PathType, Wanted


class Target(Struct, frozen=True):
    """A service's port in a network: connections are to one of `addresses`."""

    space: Space
    network: str
    addresses: tuple[tuple[str, int], ...]
    """Empty: there is no such service, or nobody behind it."""
    what: str = ""
    """The service, as its owner knows it."""


class _Site(Struct, frozen=True):
    exact: dict[str, Target]
    prefixes: tuple[tuple[str, Target], ...]
    """Longest first, without the slash at the end."""

    def find(self, path: str) -> Target | None:
        if path in self.exact:
            return self.exact[path]
        for prefix, target in self.prefixes:
            if path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == "/"):
                return target
        return None


class Tenant(Struct, frozen=True):
    """A tenant's Ingresses, as far as this node serves them, with what their backends are."""

    space: Space
    ingresses: tuple[Wanted, ...]
    targets: Mapping[tuple[str, str, Backend], Target]
    """By network, namespace and backend."""

    def target(self, ingress: Wanted, backend: Backend) -> Target:
        missing = Target(self.space, ingress.network, (), f"{ingress.namespace}/{backend.service}")
        return self.targets.get((ingress.network, ingress.namespace, backend), missing)


class _Owner(Struct, frozen=True):
    sites: dict[str, _Site]
    """By host, those with a star as they are written."""
    unnamed: _Site
    fallback: Target | None

    def find(self, host: str, path: str) -> Target | None:
        site = self.sites.get(host)
        return (site.find(path) if site else None) or self.unnamed.find(path) or self.fallback


class Table(Struct, frozen=True):
    owners: dict[str, _Owner] = {}
    """By host."""
    unnamed: _Owner | None = None
    """Of ring0, for hosts that nobody has."""

    def find(self, host: str, path: str) -> Target | None:
        host = host.lower()
        for name in (host, star_of(host)):
            owner = self.owners.get(name)
            if owner is not None:
                return owner.find(name, path)
        return self.unnamed.find(ANY, path) if self.unnamed is not None else None


def compiled(tenants: Iterable[Tenant], holders: Mapping[str, TenantId], system: TenantId) -> Table:
    """`holders` tells whose each host is; of what others say about it nothing is used."""
    owners: dict[str, _Owner] = {}
    unnamed: _Owner | None = None
    for tenant in tenants:
        owner = _owner(tenant, holders)
        owners |= dict.fromkeys(owner.sites, owner)
        if tenant.space.tenant == system:
            unnamed = owner
    return Table(owners, unnamed)


def _owner(tenant: Tenant, holders: Mapping[str, TenantId]) -> _Owner:
    paths: dict[str, list[tuple[str, PathType, Target]]] = {}
    fallback: Target | None = None
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


def _site(paths: Iterable[tuple[str, PathType, Target]]) -> _Site:
    """The first of the same path counts."""
    exact: dict[str, Target] = {}
    prefixes: dict[str, Target] = {}
    for path, kind, target in paths:
        if kind is PathType.EXACT:
            exact.setdefault(path, target)
        else:
            prefixes.setdefault(path.rstrip("/"), target)
    return _Site(exact, tuple(sorted(prefixes.items(), key=lambda each: -len(each[0]))))
