"""How much a tenant's webhook configurations, policies and bindings have: all of them are looked at for each write, whether or
not they match."""

from __future__ import annotations

import orjson

from alcove.api import objects
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource
from alcove.api.objects import Object
from alcove.api.schema.body import count_values
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import CacheReader

GROUP = "admissionregistration.k8s.io"
VALUES_PER_TENANT_MAX = 10_000
"""Values of all webhooks, or all policies, or all bindings of a tenant, of each kind; a webhook has about 30. A write that makes
them more is refused with 403."""
LOOKED_AT_ONCE = 32
"""Webhooks or policies that are looked at for a write before others have their turn."""


class AdmissionObjectBounds(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        is_write = operation in (Operation.CREATE, Operation.UPDATE)
        return is_write and not subresource and resource.group == GROUP

    async def validate(self, attributes: Attributes) -> None:
        resource, tenant, obj, old = attributes.resource, attributes.tenant, attributes.obj, attributes.old
        if obj is None or tenant == SYSTEM:
            return
        values = values_of(obj)
        if old is not None and values <= values_of(old):
            return
        stored = self._reader.list(tenant, resource)
        others = sum(values_of(each) for each in stored if objects.name(each) != attributes.name)
        if others + values > VALUES_PER_TENANT_MAX:
            message = f"all {resource.resource} of a tenant can have at most {VALUES_PER_TENANT_MAX} values together"
            raise Forbidden.of(resource, attributes.name, message)


def values_of(obj: Object) -> int:
    """About how many values it has that are looked at for a write."""
    return count_values(orjson.dumps([obj.get("webhooks"), obj.get("spec")]), VALUES_PER_TENANT_MAX + 1)
