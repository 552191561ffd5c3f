"""ServiceCIDRs show the ranges of a tenant's networks: only ring0's controllers write them."""

from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource
from alcove.api.resources import SERVICE_CIDRS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin

_MESSAGE = "it shows the range of a network's services: change spec.service.cidrs of the Network"


class ServiceRanges(Plugin):
    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource == SERVICE_CIDRS

    async def admit(self, attributes: Attributes) -> None:
        """Raises Forbidden for callers of a tenant, whatever its roles say."""
        if attributes.identity.tenant != SYSTEM:
            raise Forbidden.of(SERVICE_CIDRS, attributes.name, _MESSAGE)
