"""When a tenant's users last sent a request, for tenants that fall asleep after a time without any.

Requests of ring0 and of service accounts do not count: pods and controllers send them all the time. A watch or a stream counts
when it begins. The time is written to the Tenant rarely, but soon if the request has to wake it.
"""

from __future__ import annotations

import asyncio

from alcove.api import meta
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, Key, TenantId
from alcove.api.kinds.core.sleep import inactivity_seconds, is_asleep
from alcove.api.objects import Object, get
from alcove.api.resources import TENANTS
from alcove.apiserver.identity import Identity
from alcove.apiserver.services import ApiServerServices
from alcove.store.base import RevisionMismatch, WriteOp

CHECK_SECONDS = 1.0
WRITES_PER_INTERVAL = 10
"""How often the time is written within `spec.sleep.afterInactivity`, at most."""


class UserActivity:
    """Use it from one event loop only."""

    def __init__(self) -> None:
        self._noted: dict[TenantId, float] = {}

    def note(self, identity: Identity, now: float) -> None:
        """A user sent a request. Called for every request."""
        if identity.tenant != SYSTEM and not identity.user.startswith("system:"):
            self._noted[identity.tenant] = now

    async def run(self, services: ApiServerServices) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            noted, self._noted = self._noted, {}
            for tenant, at in noted.items():
                await self._write(services, tenant, at)

    async def _write(self, services: ApiServerServices, tenant: TenantId, at: float) -> None:
        key = Key(TENANTS, SYSTEM, "", tenant)
        entry = services.cache.entry(key)
        if entry is None or not is_due(entry.object, at):
            return
        obj = entry.decode()
        obj.setdefault("status", {})["lastActivityTime"] = meta.format_time(at)
        try:
            await services.store.write([WriteOp(key, encode(obj), entry.revision)])
        except RevisionMismatch:
            self._noted.setdefault(tenant, at)  # Changed meanwhile: decide again.


def is_due(tenant: Object, at: float) -> bool:
    """Whether a request at this time has to be written to the Tenant."""
    seconds = inactivity_seconds(tenant)
    if seconds is None:
        return False
    written = get(tenant, "status", "lastActivityTime")
    if written is None:
        return True
    age = at - meta.parse_time(written)
    return age >= (CHECK_SECONDS if is_asleep(tenant) else seconds / WRITES_PER_INTERVAL)
