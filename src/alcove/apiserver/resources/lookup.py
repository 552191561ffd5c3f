"""Where handlers find objects: what is stored, the built-in roles where nothing takes their place, and the
CRDs that ring0 shares."""

from __future__ import annotations

from collections.abc import Iterator

from alcove.api import objects
from alcove.api.ids import SYSTEM, GroupResource, Key, TenantId
from alcove.apiserver.cache.entries import Entry
from alcove.apiserver.crds import sharing
from alcove.apiserver.crds.sharing import CRDS
from alcove.apiserver.rbac import builtin
from alcove.apiserver.services import Services


def find(services: Services, key: Key) -> Entry | None:
    if key.resource == CRDS and sharing.shared(services.cache, key.tenant, key.name) is not None:
        return services.cache.entry(Key(CRDS, SYSTEM, "", key.name))
    entry = services.cache.entry(key)
    if entry is None and key.resource in builtin.RESOURCES:
        return builtin.entry(key, services.cache)
    return entry


def every(
    services: Services,
    tenant: TenantId | None,
    resource: GroupResource,
    namespace: str | None,
    after: tuple[str, str, str] = ("", "", ""),
) -> Iterator[Entry]:
    """In order of tenant, namespace, name; `tenant` None: of all tenants, of which only stored ones are shown."""
    if tenant is not None and resource in builtin.RESOURCES:
        stored = services.cache.entries(tenant, resource)
        return builtin.merged(stored, tenant, resource, after[2], services.cache)
    if tenant is not None and resource == CRDS:
        return (entry for entry in _definitions(services, tenant) if entry.key.name > after[2])
    return services.cache.entries(tenant, resource, namespace, after)


def _definitions(services: Services, tenant: TenantId) -> list[Entry]:
    """A tenant's CRDs: ring0's shared ones and its own, in order of names."""
    found: list[Entry] = []
    for crd in sharing.served(services.cache, tenant):
        entry = services.cache.entry(Key(CRDS, TenantId(crd["metadata"]["tenant"]), "", objects.name(crd)))
        if entry is not None:
            found.append(entry)
    return sorted(found, key=lambda entry: entry.key.name)
