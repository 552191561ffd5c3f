"""Indexes of the host names that Ingresses request and tenants hold, updated one Ingress at a time: the
cost of a lookup does not depend on the number of tenants and Ingresses."""

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
        """By wildcard name: the Ingresses that request a host that it covers."""
        self._hosts: dict[TenantKey, Counter[str]] = {}

    def get(self, key: ObjectKey) -> DesiredIngress | None:
        return self._desired.get(key)

    def put(self, key: ObjectKey, desired: DesiredIngress | None) -> None:
        """Replaces the entry of an Ingress. None if it was deleted or is of another controller's class."""
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
            covered = self._covered.get(star_of(host), set())
            covered.discard(key)
            if not covered:
                self._covered.pop(star_of(host), None)
        if not counts:
            del self._hosts[key.tenant_key]

    def claims(self, host: str) -> list[HostClaim]:
        return list(self._claims.get(host, {}).values())

    def wants(self, tenant_key: TenantKey, host: str) -> bool:
        return host in self._hosts.get(tenant_key, ())

    def wanting(self, host: str) -> set[ObjectKey]:
        """The Ingresses that request the host, or one that it covers."""
        return {*self._claims.get(host, ()), *self._covered.get(host, ())}


class HostHolders:
    """The tenant that holds each host name, as recorded in ring0."""

    def __init__(self) -> None:
        self.by_host: dict[str, TenantId] = {}
        self._by_tenant: dict[TenantId, frozenset[str]] = {}

    def of(self, tenant: TenantId) -> frozenset[str]:
        return self._by_tenant.get(tenant, frozenset())

    def put(self, tenant: TenantId, hosts: frozenset[str]) -> frozenset[str]:
        """Replaces the hosts of a tenant; returns the names that it gained or lost."""
        before = self._by_tenant.pop(tenant, frozenset())
        if hosts:
            self._by_tenant[tenant] = hosts
        for host in before - hosts:
            if self.by_host.get(host) == tenant:
                del self.by_host[host]
        for host in hosts:
            self.by_host.setdefault(host, tenant)
        return before ^ hosts
