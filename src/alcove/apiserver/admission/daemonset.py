"""Rejects DaemonSets of tenants, unless ring0 allows them: a tenant may not request a pod on every node."""

from alcove.api import objects
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.resources import DAEMON_SETS, TENANTS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.cache.cache import Cache

REFUSED = "only system tenant is allowed to have DaemonSet"


class DaemonSetAdmission(Plugin):
    def __init__(self, cache: Cache, *, tenants_may: bool = False) -> None:
        """`tenants_may` allows them to all tenants, `spec.daemonSets` of a Tenant to one."""
        self._cache = cache
        self._tenants_may = tenants_may

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == DAEMON_SETS and not self._tenants_may

    async def admit(self, attributes: Attributes) -> None:
        if attributes.tenant != SYSTEM and not self._is_allowed(attributes.tenant):
            raise Forbidden(REFUSED)

    def _is_allowed(self, tenant: TenantId) -> bool:
        owner = self._cache.get(SYSTEM, TENANTS, "", tenant)
        return objects.get(owner or {}, "spec", "daemonSets", default=False) is True
