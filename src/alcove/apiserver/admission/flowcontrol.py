"""Bounds how many flow schemas and priority levels a tenant stores: each of its requests may look at all of them."""

from itertools import islice

from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.priority.divisions import STORED_LIMITS
from alcove.apiserver.reader import CacheReader


class FlowControlBounds(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and not subresource and resource in STORED_LIMITS

    async def validate(self, attributes: Attributes) -> None:
        resource, limit = attributes.resource, STORED_LIMITS[attributes.resource]
        stored = islice(self._reader.list(attributes.tenant, resource), limit)
        if len(list(stored)) == limit:
            message = f"a tenant can have at most {limit} {resource.resource} beside the built-in ones"
            raise Forbidden.of(resource, attributes.name, message)
