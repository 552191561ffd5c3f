"""Rejects DaemonSets of tenants, unless ring0 allows them: a tenant may not request a pod on every node."""

from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource
from alcove.api.resources import DAEMON_SETS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin

REFUSED = "only system tenant is allowed to have DaemonSet"


class DaemonSetAdmission(Plugin):
    def __init__(self, *, tenants_may: bool = False) -> None:
        self._tenants_may = tenants_may

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == DAEMON_SETS and not self._tenants_may

    async def admit(self, attributes: Attributes) -> None:
        if attributes.tenant != SYSTEM:
            raise Forbidden(REFUSED)
