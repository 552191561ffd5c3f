"""The tenant's view of nodes: those that its pods run on, without fields that reveal other tenants."""

from __future__ import annotations

from enum import Enum

from alcove.api import objects
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.tenants import is_trusted
from alcove.api.objects import Object
from alcove.api.resources import PODS, TENANTS
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry

READ = ("get", "list", "watch")

_METADATA = ("name", "uid", "labels", "creationTimestamp")
_SPEC = ("taints", "unschedulable")
_STATUS = ("capacity", "allocatable", "conditions", "nodeInfo")


class NodeView(Enum):
    """Who looks at nodes."""

    TENANT = _STATUS
    TRUSTED = (*_STATUS, "addresses")
    """A tenant that ring0 trusts: its pods may use ports and the network of their nodes."""


def view_of(cache: Cache, tenant: TenantId) -> NodeView:
    found = cache.get(SYSTEM, TENANTS, "", tenant)
    return NodeView.TRUSTED if found is not None and is_trusted(found) else NodeView.TENANT


def visible(cache: Cache, tenant: TenantId) -> list[str]:
    """The nodes that run pods of the tenant, in order of names."""
    return sorted(cache.indexed_values(tenant, PODS))


def is_visible(cache: Cache, tenant: TenantId, node: str) -> bool:
    """Whether the node runs a pod of the tenant."""
    return bool(cache.indexed_generation(tenant, PODS, node))


def shown(entry: CacheEntry, view: NodeView) -> CacheEntry:
    """The node as tenants see it: without images, volumes and annotations, and mostly without addresses."""
    obj = entry.object
    narrowed: Object = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": _only(obj["metadata"], _METADATA),
        "spec": _only(objects.get(obj, "spec", default={}), _SPEC),
        "status": _only(objects.get(obj, "status", default={}), view.value),
    }
    return CacheEntry(entry.key, entry.revision, encode(narrowed))


def _only(holder: Object, fields: tuple[str, ...]) -> Object:
    return {field: holder[field] for field in fields if field in holder}
