"""How many records the zones of a node may have, in all and for each tenant. Every record takes some hundred bytes of the
server, and a small object may have thousands.

A tenant gets more only while as many remain free as it has then: so the next tenant always finds some.
"""

from alcove.api.ids import TenantId

NODE_RECORDS_MAX = 524_288
"""Records of all networks on a node."""
TENANT_RECORDS_MAX = 131_072
"""Those of one tenant. A Service that does not fit any more has no names in the network on that node, and gets the event
TooManyDnsRecords; a pod has none of its address."""


class RecordBudget:
    def __init__(self, records_max: int = NODE_RECORDS_MAX, tenant_max: int = TENANT_RECORDS_MAX) -> None:
        self._free = records_max
        self._tenant_max = tenant_max
        self._used: dict[TenantId, int] = {}

    def used(self, tenant: TenantId) -> int:
        return self._used.get(tenant, 0)

    def has_room(self, tenant: TenantId, before: int, now: int) -> bool:
        """Whether the tenant may have `now` records instead of `before`."""
        used, free = self.used(tenant) - before + now, self._free + before - now
        return now <= before or used <= min(self._tenant_max, free)

    def replace(self, tenant: TenantId, before: int, now: int) -> None:
        self._free += before - now
        self._used[tenant] = self.used(tenant) - before + now
        if not self._used[tenant]:
            del self._used[tenant]
