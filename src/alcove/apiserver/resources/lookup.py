"""Finds the objects that a tenant is shown: stored objects, built-in objects that no stored object replaces, the
APIServices of built-in kinds, and the CRDs that ring0 shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, TenantId
from alcove.api.resources import API_SERVICES, CRDS
from alcove.api.tenant_shards import TenantShard
from alcove.apiserver import builtin
from alcove.apiserver.aggregation import local_services
from alcove.apiserver.cache.entries import CacheEntry, indexed_value
from alcove.apiserver.call import ApiCall
from alcove.apiserver.crds import sharing
from alcove.apiserver.services import ApiServerServices
from alcove.store.base import ABSENT, RevisionMismatch

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SHARED_KEPT = 64
"""CRDs that ring0 shares, as tenants are shown them, that are kept encoded."""


def find(services: ApiServerServices, key: Key) -> CacheEntry | None:
    if key.resource == CRDS and sharing.shared(services.cache, key.tenant, key.name) is not None:
        entry = services.cache.entry(Key(CRDS, SYSTEM, "", key.name))
        return _as_shared(entry) if entry is not None else None
    entry = services.cache.entry(key)
    if entry is None and key.resource in builtin.RESOURCES:
        return builtin.entry(key, services.cache)
    if entry is None and key.resource == API_SERVICES:
        return local_services.entry(services.registry, key, services.cache)
    return entry


async def confirm(services: ApiServerServices, call: ApiCall, entry: CacheEntry) -> None:
    """For a write that changes nothing, and therefore is not sent to the store, which would check the
    revision: raises RevisionMismatch if the entry is not the newest state."""
    if not services.shared or call.is_current:
        return
    await services.catch_up()
    call.is_current = True
    newest = find(services, entry.key)
    revision = ABSENT if newest is None else newest.revision
    if newest is None or revision != entry.revision:
        raise RevisionMismatch(entry.key, revision)


def sources(tenant: TenantId | None, resource: GroupResource) -> tuple[TenantId | None, ...]:
    """The tenants whose stored objects the tenant is shown."""
    return (tenant, SYSTEM) if resource == CRDS and tenant not in (None, SYSTEM) else (tenant,)


def every(
    services: ApiServerServices,
    tenant: TenantId | None,
    resource: GroupResource,
    namespace: str | None,
    after: tuple[str, str, str] = ("", "", ""),
    shard: TenantShard | None = None,
) -> Iterator[CacheEntry]:
    """Entries in order of tenant, namespace, name. If `tenant` is None: the stored objects of all tenants, or of
    those of a shard."""
    if tenant is None or not is_overlaid(tenant, resource):
        return services.cache.entries(tenant, resource, namespace, after, shard)
    stored = [services.cache.entries(source, resource) for source in sources(tenant, resource)]
    return overlaid(services, tenant, resource, stored, after[2])


def candidates(
    services: ApiServerServices,
    tenant: TenantId | None,
    resource: GroupResource,
    namespace: str | None,
    exact: Mapping[str, str],
    after: tuple[str, str, str] = ("", "", ""),
    shard: TenantShard | None = None,
) -> Iterator[CacheEntry]:
    """As `every`, without entries that an index shows not to have the field values of `exact`. Others that do not
    have them may be among the entries."""
    value = indexed_value(resource, exact)
    name = exact.get("metadata.name")
    if value is not None and value.value:
        for entry in services.cache.indexed_entries(tenant, resource, value, shard):
            key = entry.key
            is_inside = namespace is None or key.namespace == namespace
            if is_inside and (key.tenant, key.namespace, key.name) > after:
                yield entry
    elif name and tenant is not None and namespace is not None and not is_overlaid(tenant, resource):
        found = services.cache.entry(Key(resource, tenant, namespace, name))
        if found is not None and (tenant, namespace, name) > after:
            yield found
    else:
        yield from every(services, tenant, resource, namespace, after, shard)


def is_overlaid(tenant: TenantId | None, resource: GroupResource) -> bool:
    """Whether the tenant is shown other objects than those it has stored."""
    if tenant is None:
        return False
    return (
        resource in builtin.RESOURCES or resource == API_SERVICES or (resource == CRDS and tenant != SYSTEM)
    )


def overlaid(
    services: ApiServerServices,
    tenant: TenantId,
    resource: GroupResource,
    stored: Sequence[Iterable[CacheEntry]],
    after: str,
) -> Iterator[CacheEntry]:
    """The objects that the tenant is shown, of names after `after`, given what each of its `sources` has
    stored."""
    if resource in builtin.RESOURCES:
        return builtin.merged(stored[0], tenant, resource, after, services.cache)
    if resource == API_SERVICES:
        return local_services.merged(services.registry, stored[0], tenant, after, services.cache)
    return (entry for entry in _definitions(*stored) if entry.key.name > after)


def is_shared(definition: CacheEntry) -> bool:
    """Whether a CRD of ring0 is shown in every tenant."""
    return definition.labels.get(sharing.LABEL) == sharing.FORCED


def _definitions(tenant: Iterable[CacheEntry], ring0: Iterable[CacheEntry]) -> list[CacheEntry]:
    """The CRDs that a tenant is shown, in order of names: ring0's shared ones hide the tenant's."""
    by_name = {entry.key.name: entry for entry in tenant}
    by_name.update((entry.key.name, _as_shared(entry)) for entry in ring0 if is_shared(entry))
    return [by_name[name] for name in sorted(by_name)]


@lru_cache(maxsize=SHARED_KEPT)
def _as_shared(definition: CacheEntry) -> CacheEntry:
    """A CRD of ring0 as tenants are shown it: without the configuration that ring0 applied. A tenant that applies
    the same one would find it unchanged and send nothing, instead of being told that the CRD is not its own."""
    metadata = definition.object["metadata"]
    annotations = metadata.get("annotations") or {}
    if LAST_APPLIED not in annotations:
        return definition
    rest = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    shown = {name: value for name, value in metadata.items() if name != "resourceVersion"} | {
        "annotations": rest
    }
    return CacheEntry(definition.key, definition.revision, encode({**definition.object, "metadata": shown}))
