"""When a tenant's users last sent a request, for tenants that fall asleep after a time without any; and when somebody last
asked for the dedicated API server of a tenant that is asleep.

Requests of ring0 and of service accounts do not count: pods and controllers send them all the time. A watch or a stream counts
when it begins. The time is written to the Tenant rarely, but soon if the request has to wake it.
"""

from __future__ import annotations

import asyncio

from alcove.api import meta
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, Key, TenantId
from alcove.api.kinds.core.plane_sleep import ASLEEP, IDLE_SECONDS, idle_at, stop_reason
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
        self._planes_noted: dict[TenantId, float] = {}

    def note(self, identity: Identity, now: float) -> None:
        """A user sent a request. Called for every request."""
        if identity.tenant != SYSTEM and not identity.user.startswith("system:"):
            self._noted[identity.tenant] = now

    def note_plane(self, tenant: TenantId, now: float) -> None:
        """Anybody sent a request to the API server of a tenant that is asleep."""
        self._planes_noted[tenant] = now

    async def run(self, services: ApiServerServices) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            noted, self._noted = self._noted, {}
            planes_noted, self._planes_noted = self._planes_noted, {}
            for tenant in {**noted, **planes_noted}:
                await self._write(services, tenant, noted.get(tenant), planes_noted.get(tenant))

    async def _write(
        self, services: ApiServerServices, tenant: TenantId, at: float | None, plane_at: float | None
    ) -> None:
        key = Key(TENANTS, SYSTEM, "", tenant)
        entry = services.cache.entry(key)
        if entry is None:
            return
        is_active = at is not None and is_due(entry.object, at)
        is_asked_for = plane_at is not None and is_plane_due(entry.object, plane_at)
        if not is_active and not is_asked_for:
            return
        obj = entry.decode()
        status = obj.setdefault("status", {})
        if at is not None and is_active:
            status["lastActivityTime"] = meta.format_time(at)
        if plane_at is not None and is_asked_for:
            status.setdefault("controlPlane", {})["lastRequestTime"] = meta.format_time(plane_at)
        try:
            await services.store.write([WriteOp(key, encode(obj), entry.revision)])
        except RevisionMismatch:
            # Changed meanwhile: decide again.
            if at is not None:
                self._noted.setdefault(tenant, at)
            if plane_at is not None:
                self._planes_noted.setdefault(tenant, plane_at)


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


def is_plane_due(tenant: Object, at: float) -> bool:
    """Whether a request for its API server at this time has to be written to the Tenant."""
    if not is_asleep(tenant):
        return False
    seconds = CHECK_SECONDS if stop_reason(tenant) == ASLEEP else IDLE_SECONDS / WRITES_PER_INTERVAL
    return at - (idle_at(tenant) - IDLE_SECONDS) >= seconds
