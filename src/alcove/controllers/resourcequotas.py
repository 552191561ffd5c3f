"""Resource quotas: `status.hard` shows the limits of the spec again after a client has written it.

What is used is counted by the API server with every write; this controller counts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import RESOURCE_QUOTAS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result


def is_true(quota: Object) -> bool:
    """Whether the status shows the limits of the spec."""
    shown, limits = (objects.get(quota, part, "hard", default={}) for part in ("status", "spec"))
    return bool(shown == limits)


def _untrue(change: ObjectChange) -> Iterable[ObjectKey]:
    # Most changes are of what is used.
    return () if is_true(change.obj) else (change.key,)


class ResourceQuotaController(Controller):
    name = "resource-quota"
    resource = RESOURCE_QUOTAS
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._quotas = self.mirror(RESOURCE_QUOTAS)
        self.on(self._quotas, _untrue)

    async def reconcile(self, key: ObjectKey) -> Result:
        quota = self._quotas.get(key)
        if quota is not None and not is_true(quota):
            quota["status"] = {
                **(quota.get("status") or {}),
                "hard": objects.get(quota, "spec", "hard", default={}),
            }
            await self.client(key).update(key.tenant, RESOURCE_QUOTAS, quota, subresource="status")
        return DONE
