"""The tenant's view of nodes: those that its pods run on, without fields that reveal other tenants."""

from __future__ import annotations

from alcove.api import objects
from alcove.api.encode import encode
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.api.resources import PODS
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry

READ = ("get", "list", "watch")

_METADATA = ("name", "uid", "labels", "creationTimestamp")
_SPEC = ("taints", "unschedulable")
_STATUS = ("capacity", "allocatable", "conditions", "nodeInfo")


def visible(cache: Cache, tenant: TenantId) -> list[str]:
    """The nodes that run pods of the tenant, in order of names."""
    return sorted(cache.indexed_values(tenant, PODS))


def is_visible(cache: Cache, tenant: TenantId, node: str) -> bool:
    """Whether the node runs a pod of the tenant."""
    return bool(cache.indexed_generation(tenant, PODS, node))


def shown(entry: CacheEntry) -> CacheEntry:
    """The node as tenants see it: without images, addresses, volumes and annotations."""
    obj = entry.object
    narrowed: Object = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": _only(obj["metadata"], _METADATA),
        "spec": _only(objects.get(obj, "spec", default={}), _SPEC),
        "status": _only(objects.get(obj, "status", default={}), _STATUS),
    }
    return CacheEntry(entry.key, entry.revision, encode(narrowed))


def _only(holder: Object, fields: tuple[str, ...]) -> Object:
    return {field: holder[field] for field in fields if field in holder}
