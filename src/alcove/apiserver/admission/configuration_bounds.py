"""How large a tenant's objects are, together, of the kinds that the API server itself reads as a whole: all classes to find the
default one, all webhooks and policies of a write, all roles that one aggregates.

They are read between two steps of the event loop, so their size is the time that everybody waits. What is read one by one, or
in threads, needs no such bound.
"""

from __future__ import annotations

from msgspec import Struct

from alcove.api.encode import encode
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource
from alcove.api.objects import Object
from alcove.api.resources import (
    API_SERVICES,
    CRDS,
    FLOW_SCHEMAS,
    INGRESS_CLASSES,
    INGRESSES,
    LIMIT_RANGES,
    PRIORITY_CLASSES,
    PRIORITY_LEVELS,
    RESOURCE_QUOTAS,
    STORAGE_CLASSES,
)
from alcove.api.schema.body import count_values
from alcove.apiserver.admission.admission_objects import GROUP
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.rbac.defaults import CLUSTER_ROLES
from alcove.apiserver.reader import CacheReader


class KindBounds(Struct, frozen=True):
    """Of all objects of a kind that a tenant has."""

    bytes_max: int
    values_max: int | None
    """None if they are not counted: it takes long for many bytes."""


CLASS_BOUNDS = KindBounds(bytes_max=1 << 20, values_max=50_000)
"""Of StorageClasses, IngressClasses, PriorityClasses, FlowSchemas, PriorityLevelConfigurations, each."""
ADMISSION_BOUNDS = KindBounds(bytes_max=4 << 20, values_max=50_000)
"""Of webhook configurations, policies, bindings and APIServices, of each kind: they have certificates."""
NAMESPACED_BOUNDS = KindBounds(bytes_max=8 << 20, values_max=400_000)
"""Of LimitRanges, ResourceQuotas, Ingresses and ClusterRoles, of each kind: large tenants have thousands."""
DEFINITION_BOUNDS = KindBounds(bytes_max=64 << 20, values_max=None)
"""Of CustomResourceDefinitions, which are kept decoded."""

_BOUNDS: dict[GroupResource, KindBounds] = {
    STORAGE_CLASSES: CLASS_BOUNDS,
    INGRESS_CLASSES: CLASS_BOUNDS,
    PRIORITY_CLASSES: CLASS_BOUNDS,
    FLOW_SCHEMAS: CLASS_BOUNDS,
    PRIORITY_LEVELS: CLASS_BOUNDS,
    API_SERVICES: ADMISSION_BOUNDS,
    CRDS: DEFINITION_BOUNDS,
    LIMIT_RANGES: NAMESPACED_BOUNDS,
    RESOURCE_QUOTAS: NAMESPACED_BOUNDS,
    INGRESSES: NAMESPACED_BOUNDS,
    CLUSTER_ROLES: NAMESPACED_BOUNDS,
}


class ConfigurationBounds(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        # Also writes of a status, which is as large as a client likes.
        is_write = operation in (Operation.CREATE, Operation.UPDATE)
        return is_write and bounds_of(resource) is not None

    async def validate(self, attributes: Attributes) -> None:
        obj, bounds = attributes.obj, bounds_of(attributes.resource)
        if obj is None or bounds is None or attributes.tenant == SYSTEM or attributes.identity.is_system:
            return
        size, values = _amounts(obj, bounds)
        if attributes.old is not None:
            size_before, values_before = _amounts(attributes.old, bounds)
            if size <= size_before and values <= values_before:
                return
        resource = attributes.resource
        snapshot = self._reader.snapshot(attributes.tenant, (resource,))
        for entry in snapshot.entries(resource):
            if (entry.key.namespace, entry.key.name) != (attributes.namespace, attributes.name):
                size += entry.size
                if size > bounds.bytes_max:
                    break
                values += _values(entry.body, bounds)
        if size > bounds.bytes_max or (bounds.values_max is not None and values > bounds.values_max):
            and_values = f" and {bounds.values_max} values" if bounds.values_max is not None else ""
            message = (
                f"all {resource.resource} of a tenant can have at most "
                f"{bounds.bytes_max} bytes{and_values} together"
            )
            raise Forbidden.of(resource, attributes.name, message)


def bounds_of(resource: GroupResource) -> KindBounds | None:
    """None if the kind has no bounds."""
    return ADMISSION_BOUNDS if resource.group == GROUP else _BOUNDS.get(resource)


def _amounts(obj: Object, bounds: KindBounds) -> tuple[int, int]:
    body = encode(obj)
    return len(body), _values(body, bounds)


def _values(body: bytes, bounds: KindBounds) -> int:
    return count_values(body, bounds.values_max + 1) if bounds.values_max is not None else 0
