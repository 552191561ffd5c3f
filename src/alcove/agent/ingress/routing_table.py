"""The backend of a request, by host and path. Pure and immutable: every change builds a new table.

A host belongs to one tenant (`network/ingress/domains.py`), so only that tenant's rules apply to it. The
longest path wins, then an exact path over a prefix of the same length, then the older Ingress. If no path of
the host matches, the tenant's rules without a host are used, then its default backend.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.client.keys import TenantKey
from alcove.network.ingress.domains import DomainGrants, star_of
from alcove.network.ingress.ingress_spec import ANY, DesiredIngress, IngressBackend, PathType

HOSTS_PER_TENANT_MAX = 2_000
"""Host names of one tenant's Ingresses that a node serves; the Ingresses with further ones get the event
TooManyHosts."""


class IngressTarget(Struct, frozen=True):
    """A service port in a network. Connections are made to one of `addresses`."""

    tenant_key: TenantKey
    network: str
    addresses: tuple[tuple[str, int], ...]
    """Empty if the service does not exist or has no ready endpoints."""
    description: str = ""
    """`namespace/name` of the service."""


class _HostPaths(Struct, frozen=True):
    exact: dict[str, IngressTarget]
    prefixes: tuple[tuple[str, IngressTarget], ...]
    """Longest first, without a trailing slash."""

    def find(self, path: str) -> IngressTarget | None:
        if path in self.exact:
            return self.exact[path]
        for prefix, target in self.prefixes:
            if path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == "/"):
                return target
        return None


class TenantIngresses(Struct, frozen=True):
    """A tenant's Ingresses that this node serves, with the targets of their backends."""

    tenant_key: TenantKey
    ingresses: tuple[DesiredIngress, ...]
    targets: Mapping[tuple[str, str, IngressBackend], IngressTarget]
    """By network, namespace and backend."""

    def target(self, ingress: DesiredIngress, backend: IngressBackend) -> IngressTarget:
        missing = IngressTarget(
            self.tenant_key, ingress.network, (), f"{ingress.namespace}/{backend.service}"
        )
        return self.targets.get((ingress.network, ingress.namespace, backend), missing)


class _TenantRoutes(Struct, frozen=True):
    hosts: dict[str, _HostPaths]
    """By host; wildcard hosts are keys as written."""
    default: _HostPaths
    fallback: IngressTarget | None

    def find(self, host: str, path: str) -> IngressTarget | None:
        host_paths = self.hosts.get(host) or self.hosts.get(star_of(host))
        return (host_paths.find(path) if host_paths else None) or self.default.find(path) or self.fallback


class RoutingTable(Struct, frozen=True):
    grants: DomainGrants
    tenants: dict[TenantId, _TenantRoutes] = {}

    def find(self, host: str, path: str) -> IngressTarget | None:
        host = host.lower()
        routes = self.tenants.get(self.grants.owner(host))
        return routes.find(host, path) if routes is not None else None


def compiled(tenants: Iterable[TenantIngresses], grants: DomainGrants) -> RoutingTable:
    """Rules for hosts that the tenant does not own are ignored, and those over HOSTS_PER_TENANT_MAX."""
    return RoutingTable(grants, {each.tenant_key.tenant: _tenant_routes(each, grants) for each in tenants})


def served_hosts(
    tenant: TenantId, ingresses: Iterable[DesiredIngress], grants: DomainGrants
) -> tuple[frozenset[str], list[tuple[DesiredIngress, str]]]:
    """The hosts of the tenant's Ingresses that are served, and those that are left out because the tenant has
    too many: the ones of its youngest Ingresses."""
    served: set[str] = set()
    surplus: list[tuple[DesiredIngress, str]] = []
    for ingress in sorted(ingresses, key=lambda each: each.age):
        for host in ingress.hosts:
            if host in served or grants.owner(host) != tenant:
                continue
            if len(served) < HOSTS_PER_TENANT_MAX:
                served.add(host)
            else:
                surplus.append((ingress, host))
    return frozenset(served), surplus


def _tenant_routes(tenant: TenantIngresses, grants: DomainGrants) -> _TenantRoutes:
    hosts, _ = served_hosts(tenant.tenant_key.tenant, tenant.ingresses, grants)
    paths: dict[str, list[tuple[str, PathType, IngressTarget]]] = {host: [] for host in hosts}
    fallback: IngressTarget | None = None
    for ingress in sorted(tenant.ingresses, key=lambda each: each.age):
        for rule in ingress.rules:
            if rule.host == ANY or rule.host in paths:
                target = tenant.target(ingress, rule.backend)
                paths.setdefault(rule.host, []).append((rule.path, rule.path_type, target))
        if fallback is None and ingress.fallback is not None:
            fallback = tenant.target(ingress, ingress.fallback)
    default = _host_paths(paths.pop(ANY, []))
    return _TenantRoutes({host: _host_paths(found) for host, found in paths.items()}, default, fallback)


def _host_paths(paths: Iterable[tuple[str, PathType, IngressTarget]]) -> _HostPaths:
    """For equal paths the first one wins."""
    exact: dict[str, IngressTarget] = {}
    prefixes: dict[str, IngressTarget] = {}
    for path, kind, target in paths:
        if kind is PathType.EXACT:
            exact.setdefault(path, target)
        else:
            prefixes.setdefault(path.rstrip("/"), target)
    return _HostPaths(exact, tuple(sorted(prefixes.items(), key=lambda each: -len(each[0]))))
