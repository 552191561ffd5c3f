"""Who wants which host name, kept up to date one Ingress at a time: a question costs what it asks for, however many
tenants and Ingresses there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from alcove.api.ids import TenantId
from alcove.client.keys import ObjectKey, TenantKey
from alcove.network.ingress.claims import HostClaim, star_of
from alcove.network.ingress.ingress_spec import DesiredIngress


class IngressIndex:
    def __init__(self) -> None:
        self._desired: dict[ObjectKey, DesiredIngress] = {}
        self._claims: dict[str, dict[ObjectKey, HostClaim]] = {}
        self._covered: dict[str, set[ObjectKey]] = {}
        """By a name with a star: who wants one under it."""
        self._hosts: dict[TenantKey, Counter[str]] = {}

    def get(self, key: ObjectKey) -> DesiredIngress | None:
        return self._desired.get(key)

    def put(self, key: ObjectKey, desired: DesiredIngress | None) -> None:
        """What the Ingress wants now; None: it is gone, or is none of ours."""
        before = self._desired.pop(key, None)
        if before is not None and before.hosts:
            self._drop(key, before.hosts)
        if desired is not None:
            self._desired[key] = desired
        if desired is not None and desired.hosts:
            self._add(key, desired)

    def _add(self, key: ObjectKey, desired: DesiredIngress) -> None:
        claim = HostClaim(*desired.age, key.tenant)
        self._hosts.setdefault(key.tenant_key, Counter()).update(desired.hosts)
        for host in desired.hosts:
            self._claims.setdefault(host, {})[key] = claim
            self._covered.setdefault(star_of(host), set()).add(key)

    def _drop(self, key: ObjectKey, hosts: Iterable[str]) -> None:
        counts = self._hosts[key.tenant_key]
        for host in hosts:
            counts[host] -= 1
            if not counts[host]:
                del counts[host]
            del self._claims[host][key]
            if not self._claims[host]:
                del self._claims[host]
            under = self._covered.get(star_of(host), set())
            under.discard(key)
            if not under:
                self._covered.pop(star_of(host), None)
        if not counts:
            del self._hosts[key.tenant_key]

    def claims(self, host: str) -> list[HostClaim]:
        return list(self._claims.get(host, {}).values())

    def wants(self, tenant_key: TenantKey, host: str) -> bool:
        return host in self._hosts.get(tenant_key, ())

    def wanting(self, host: str) -> set[ObjectKey]:
        """Who names the host, or one that it covers."""
        return {*self._claims.get(host, ()), *self._covered.get(host, ())}


class HostHolders:
    """Who has which name, as ring0 has noted it."""

    def __init__(self) -> None:
        self.by_host: dict[str, TenantId] = {}
        self._by_tenant: dict[TenantId, frozenset[str]] = {}

    def of(self, tenant: TenantId) -> frozenset[str]:
        return self._by_tenant.get(tenant, frozenset())

    def put(self, tenant: TenantId, hosts: frozenset[str]) -> frozenset[str]:
        """The names for which something has changed."""
        before = self._by_tenant.pop(tenant, frozenset())
        if hosts:
            self._by_tenant[tenant] = hosts
        for host in before - hosts:
            if self.by_host.get(host) == tenant:
                del self.by_host[host]
        for host in hosts:
            self.by_host.setdefault(host, tenant)
        return before ^ hosts
