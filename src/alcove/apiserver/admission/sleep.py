"""A tenant that is asleep gets no pods on nodes. Pods that name no node are accepted: they wait until it wakes."""

from alcove.api import objects
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kinds.core.sleep import is_asleep
from alcove.api.resources import PODS, TENANTS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import ObjectReader


def check_awake(reader: ObjectReader, tenant: TenantId, pod: str) -> None:
    """Raises Forbidden if the tenant is asleep."""
    owner = reader.get(SYSTEM, TENANTS, "", tenant)
    if owner is not None and is_asleep(owner):
        message = f'tenant "{tenant}" is asleep: its pods are not assigned to nodes until it wakes'
        raise Forbidden.of(PODS, pod, message)


class SleepAdmission(Plugin):
    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == PODS and not subresource

    async def validate(self, attributes: Attributes) -> None:
        if attributes.obj is not None and objects.get(attributes.obj, "spec", "nodeName"):
            check_awake(self._reader, attributes.tenant, attributes.name)
