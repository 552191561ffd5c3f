"""The default roles as the watch cache shows them: entries at revision 0, where nothing is stored.

Revision 0 is the store's word for "absent", so the ordinary ways work unchanged: a write that expects
what it read creates the stored object that takes the built-in one's place, and when that is deleted the
built-in one shows again. What is only built in cannot be deleted: ask `is_built_in`.
"""

from collections.abc import Iterable, Iterator

from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.rbac import aggregate, defaults
from alcove.apiserver.reader import CacheReader
from alcove.store.base import ABSENT

RESOURCES = frozenset((defaults.CLUSTER_ROLES, defaults.CLUSTER_ROLE_BINDINGS))
"""Where there is anything built in."""

_TENANTS = GroupResource("", "tenants")
_BEGINNING = "1970-01-01T00:00:00Z"


def is_built_in(entry: CacheEntry) -> bool:
    return entry.revision == ABSENT


def entry(key: Key, reader: CacheReader) -> CacheEntry | None:
    """The built-in object at `key`, for when no object is stored there."""
    bare = defaults.built_in(key.tenant, key.resource).get(key.name)
    if bare is None or key.namespace:
        return None
    roles = reader.list(key.tenant, key.resource) if aggregate.is_aggregated(bare) else ()
    return made(key, created(key.tenant, reader), roles)


def merged(
    stored: Iterable[CacheEntry], tenant: TenantId, resource: GroupResource, after: str, reader: CacheReader
) -> Iterator[CacheEntry]:
    """All of a tenant's objects of one of `RESOURCES` whose names follow `after`, in order of names.
    `stored` are all stored ones."""
    by_name = {found.key.name: found for found in stored}
    roles = [found.object for found in by_name.values()]
    since = created(tenant, reader)
    for name in sorted({*by_name, *defaults.built_in(tenant, resource)}):
        if name > after:
            yield by_name.get(name) or made(Key(resource, tenant, "", name), since, roles)


def created(tenant: TenantId, reader: CacheReader) -> str:
    """When the tenant was, which is when it got its default roles."""
    found = reader.get(SYSTEM, _TENANTS, "", tenant)
    since: str | None = found["metadata"].get("creationTimestamp") if found is not None else None
    return since or _BEGINNING


def made(key: Key, since: str, roles: Iterable[Object]) -> CacheEntry:
    """The built-in object at `key`, of a tenant that is there `since` then and has stored these roles."""
    shown = defaults.get(key.tenant, key.resource, key.name, since, roles)
    assert shown is not None
    return CacheEntry(key, Revision(ABSENT), encode(shown))
