"""The default roles as cache entries at revision 0, shown where no object of the name is stored.

Revision 0 means "absent" in the store, so ordinary writes work unchanged: an update of a built-in object
creates a stored object that replaces it, and when that is deleted, the built-in one is shown again. A
built-in object cannot be deleted: check `is_built_in`.
"""

from collections.abc import Iterable, Iterator

from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.resources import TENANTS
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.rbac import aggregate, defaults
from alcove.apiserver.reader import CacheReader
from alcove.store.base import ABSENT

RESOURCES = frozenset((defaults.CLUSTER_ROLES, defaults.CLUSTER_ROLE_BINDINGS))
"""The resources that have built-in objects."""

_BEGINNING = "1970-01-01T00:00:00Z"


def is_built_in(entry: CacheEntry) -> bool:
    return entry.revision == ABSENT


def entry(key: Key, reader: CacheReader) -> CacheEntry | None:
    """The built-in object at `key`; None if there is none. Call it if no object is stored at `key`."""
    bare = defaults.built_in(key.tenant, key.resource).get(key.name)
    if bare is None or key.namespace:
        return None
    roles = reader.list(key.tenant, key.resource) if aggregate.is_aggregated(bare) else ()
    return build(key, created(key.tenant, reader), roles)


def merged(
    stored: Iterable[CacheEntry], tenant: TenantId, resource: GroupResource, after: str, reader: CacheReader
) -> Iterator[CacheEntry]:
    """All of a tenant's objects of one of `RESOURCES` with names after `after`, in order of names.

    `stored` are all of the tenant's stored objects of the resource.
    """
    by_name = {entry.key.name: entry for entry in stored}
    roles = [entry.object for entry in by_name.values()]
    since = created(tenant, reader)
    for name in sorted({*by_name, *defaults.built_in(tenant, resource)}):
        if name > after:
            yield by_name.get(name) or build(Key(resource, tenant, "", name), since, roles)


def created(tenant: TenantId, reader: CacheReader) -> str:
    """The creation time of the tenant, and so of its default roles."""
    obj = reader.get(SYSTEM, TENANTS, "", tenant)
    since: str | None = obj["metadata"].get("creationTimestamp") if obj is not None else None
    return since or _BEGINNING


def build(key: Key, since: str, roles: Iterable[Object]) -> CacheEntry:
    """The built-in object at `key`. `since` is the tenant's creation time, `roles` are its stored roles."""
    shown = defaults.get(key.tenant, key.resource, key.name, since, roles)
    assert shown is not None
    return CacheEntry(key, Revision(ABSENT), encode(shown))
