"""Where handlers find objects: what is stored, and the built-in roles where nothing takes their place."""

from __future__ import annotations

from collections.abc import Iterator

from alcove.api.ids import GroupResource, Key, TenantId
from alcove.apiserver.cache.entries import Entry
from alcove.apiserver.rbac import builtin
from alcove.apiserver.services import Services


def find(services: Services, key: Key) -> Entry | None:
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
    return services.cache.entries(tenant, resource, namespace, after)
