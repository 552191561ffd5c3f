"""Built-in objects (default roles, flow schemas, priority levels) as cache entries at revision 0, shown where no object
of the name is stored.

Revision 0 means "absent" in the store, so ordinary writes work unchanged: an update of a built-in object
creates a stored object that replaces it, and when that is deleted, the built-in one is shown again. A
built-in object cannot be deleted: check `is_built_in`.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping

from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.kinds.flowcontrol.defaults import FLOW_SCHEMAS as DEFAULT_FLOW_SCHEMAS
from alcove.api.kinds.flowcontrol.defaults import PRIORITY_LEVELS as DEFAULT_PRIORITY_LEVELS
from alcove.api.objects import Object
from alcove.api.resources import FLOW_SCHEMAS, PRIORITY_LEVELS, TENANTS
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.rbac import aggregate, defaults
from alcove.apiserver.reader import CacheReader
from alcove.store.base import ABSENT

RESOURCES = frozenset((defaults.CLUSTER_ROLES, defaults.CLUSTER_ROLE_BINDINGS, FLOW_SCHEMAS, PRIORITY_LEVELS))
"""The resources that have built-in objects."""

_FLOW_CONTROL: Mapping[GroupResource, Mapping[str, Object]] = {
    FLOW_SCHEMAS: DEFAULT_FLOW_SCHEMAS,
    PRIORITY_LEVELS: DEFAULT_PRIORITY_LEVELS,
}
_BEGINNING = "1970-01-01T00:00:00Z"
_UID_SPACE = uuid.UUID("5d0c2a0e-6f0a-4a53-9d0b-0b7f3a1f7a11")


def is_built_in(entry: CacheEntry) -> bool:
    return entry.revision == ABSENT


def built_in(tenant: TenantId, resource: GroupResource) -> Mapping[str, Object]:
    """The tenant's built-in objects by name, without tenant-specific metadata. Shared: do not change them."""
    return _FLOW_CONTROL.get(resource) or defaults.built_in(tenant, resource)


def uid_of(tenant: TenantId, resource: GroupResource, name: str) -> str:
    return str(uuid.uuid5(_UID_SPACE, f"{tenant}/{resource}/{name}"))


def entry(key: Key, reader: CacheReader) -> CacheEntry | None:
    """The built-in object at `key`; None if there is none. Call it if no object is stored at `key`."""
    bare = built_in(key.tenant, key.resource).get(key.name)
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
    for name in sorted({*by_name, *built_in(tenant, resource)}):
        if name > after:
            yield by_name.get(name) or build(Key(resource, tenant, "", name), since, roles)


def created(tenant: TenantId, reader: CacheReader) -> str:
    """The creation time of the tenant, and so of its built-in objects."""
    obj = reader.get(SYSTEM, TENANTS, "", tenant)
    since: str | None = obj["metadata"].get("creationTimestamp") if obj is not None else None
    return since or _BEGINNING


def build(key: Key, since: str, roles: Iterable[Object]) -> CacheEntry:
    """The built-in object at `key`. `since` is the tenant's creation time, `roles` are its stored roles."""
    shown = get(key.tenant, key.resource, key.name, since, roles)
    assert shown is not None
    return CacheEntry(key, Revision(ABSENT), encode(shown))


def get(
    tenant: TenantId, resource: GroupResource, name: str, created: str, stored_roles: Iterable[Object] = ()
) -> Object | None:
    """A built-in object as the API shows it: with the tenant's metadata, and an aggregated role with the
    rules of built-in roles and `stored_roles`. `created` is the tenant's creation time. Its resourceVersion
    is 0, as it is not in the store. Its parts are shared: do not change it."""
    bare = built_in(tenant, resource).get(name)
    if bare is None:
        return None
    metadata = {
        **bare["metadata"],
        "tenant": tenant,
        "selfLink": f"/apis/{bare['apiVersion']}/tenants/{tenant}/{resource.resource}/{name}",
        "uid": uid_of(tenant, resource, name),
        "creationTimestamp": created,
        "resourceVersion": "0",
    }
    shown = {**bare, "metadata": metadata}
    if aggregate.is_aggregated(bare):
        roles = defaults.with_built_in(tenant, resource, stored_roles)
        shown["rules"] = [rule.to_object() for rule in aggregate.aggregate(bare, roles)]
    return shown
