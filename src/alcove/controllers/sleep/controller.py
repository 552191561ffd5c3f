"""The sleep controller: decides which tenants are asleep, and writes it to the condition `Asleep` of the Tenant.

Nobody else decides it. The scheduler does not place pods of a tenant that is asleep, the API server accepts no pod with a
node for it, its jobs and cron jobs are treated as suspended, and `SleepingPods` ends the pods that run. The plane controller
then stops a dedicated API server, which also says when its users sent requests to its own address.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import meta
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.backups import reads_volumes_before_delete
from alcove.api.kinds.core.control_planes import is_dedicated
from alcove.api.kinds.core.sleep import ASLEEP, inactivity_seconds, is_asleep, sleep_of
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.resources import TENANTS
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.sleep.plan import decide, latest_activity
from alcove.controllers.tenants.controller import tenant_key

RESYNC_SECONDS_MAX = 3600.0
"""Timers do not notice when the wall clock is set, so the decision is made again at least this often."""


class SleepController(Controller):
    name = "sleep"
    resource = TENANTS
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._tenants = self.mirror(TENANTS)
        self.on(self._tenants, _of_tenant)

    async def reconcile(self, key: ObjectKey) -> Result:
        tenant = self._tenants.get(key)
        if tenant is None:
            return DONE
        if "deletionTimestamp" in tenant["metadata"] and not reads_volumes_before_delete(tenant):
            return DONE
        status = tenant.setdefault("status", {})
        if not _may_sleep(tenant):
            return DONE
        now, before = self.clock(), dict(status)
        if inactivity_seconds(tenant) is None:
            status.pop("lastActivityTime", None)
        else:
            status.setdefault("lastActivityTime", meta.format_time(now))
            on_plane = self._tenants.get(ObjectKey(PlaneId(key.name), SYSTEM, "", key.name))
            if on_plane is not None and is_dedicated(tenant):
                status["lastActivityTime"] = latest_activity(tenant, on_plane, now)
        decision = decide(tenant, now)
        condition = Condition(ASLEEP, decision.is_asleep, decision.reason, decision.message)
        status["conditions"] = conditions.updated(before.get("conditions") or [], [condition], now)
        if status != before:
            await self.client(key).update(SYSTEM, TENANTS, tenant, subresource="status")
        if decision.next_change is None:
            return DONE
        return Result(min(max(decision.next_change - now, 0.0) + 0.1, RESYNC_SECONDS_MAX))


def _may_sleep(tenant: Object) -> bool:
    """Whether there is anything to decide, or to write."""
    return bool(sleep_of(tenant)) or is_asleep(tenant) or "lastActivityTime" in (tenant.get("status") or {})


def _of_tenant(change: ObjectChange) -> Iterable[ObjectKey]:
    is_idle = change.key.plane == HOME and not _may_sleep(change.obj)
    return () if is_idle else (tenant_key(TenantId(change.key.name)),)
