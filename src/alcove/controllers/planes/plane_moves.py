"""What the plane controller does for tenants that move (`moving`): it runs the steps once the tenant's own API server is ready,
reports how far the move is, and clears up what is left at the server that the tenant has moved away from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from alcove.api import objects
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.control_planes import DEDICATED, MOVING, SHARED, serving_mode
from alcove.api.kinds.core.plane_sleep import API_SERVER_READY
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.resources import TENANTS
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, ConnectPlane, Result
from alcove.controllers.plane_certificates import PlaneCertificates, PlaneKeys, authorities
from alcove.controllers.planes import content, moving
from alcove.controllers.planes.manifests import PlaneNames
from alcove.controllers.planes.moving import MoveFailed, TenantMove
from alcove.controllers.planes.observation import CERTIFICATES_READY, JOINED, STORE_READY, RunningServer

log = logging.getLogger(__name__)

PENDING_SECONDS = 0.5
CONNECT_SECONDS = 2.0
RETRY_SECONDS = 30.0
"""After a move that failed: meanwhile the tenant is served as before."""
_OF_PLANE = (CERTIFICATES_READY, STORE_READY, API_SERVER_READY, JOINED)
_NAMES = {DEDICATED: "its own API server", SHARED: "the home plane"}


class PlaneMoves:
    def __init__(
        self,
        home: Callable[[], Client],
        connect: ConnectPlane | None,
        certificates: PlaneCertificates | None,
        clock: Callable[[], float],
    ) -> None:
        self._home = home
        self._connect = connect
        self._certificates = certificates
        self._clock = clock

    def credentials(self, keys: PlaneKeys) -> Object:
        """What the Tenant's status says of the keys, for servers to verify whom they have vouched for."""
        assert self._certificates is not None
        return {
            "certificateAuthority": authorities(keys),
            "serviceAccountKeys": self._certificates.public_keys(keys),
        }

    async def move(
        self, tenant: Object, servers: Sequence[RunningServer], keys: PlaneKeys, error: str
    ) -> Result:
        """Moves the tenant to or from its own API server, as soon as this is ready. `error` says why it is not."""
        to = SHARED if serving_mode(tenant) == DEDICATED else DEDICATED
        if self._connect is None:
            return DONE
        if not servers:
            message = f"Waiting for the tenant's own API server{': ' if error else ''}{error}"
            await self._report(tenant, Condition(MOVING, True, "Preparing", message))
            return Result(after_seconds=PENDING_SECONDS)
        message = f"Copying the tenant's objects to {_NAMES[to]}; requests are answered with 503 for a moment"
        await self._report(tenant, Condition(MOVING, True, "Copying", message))
        name, names, server = TenantId(objects.name(tenant)), PlaneNames.of(tenant), servers[0]
        observed: Object = {**self.credentials(keys), "mode": to, "lastError": None, "endpoints": None}
        observed["version"] = server.version if to == DEDICATED else None
        status = {"endpoint": server.url if to == DEDICATED else None, "controlPlane": observed}

        async def switch() -> None:
            await self._home().patch(SYSTEM, TENANTS, name, {"status": status}, subresource="status")

        try:
            async with AsyncExitStack() as stack:
                try:
                    plane = await stack.enter_async_context(self._connect(server.url, authorities(keys)))
                except (ApiError, ClientError) as refusal:
                    message = f"Cannot connect to the tenant's own API server: {refusal}"
                    await self._report(tenant, Condition(MOVING, True, "Preparing", message))
                    return Result(after_seconds=CONNECT_SECONDS)
                await TenantMove(name, names.owner, self._home(), plane, to == DEDICATED, switch).run()
        except MoveFailed as failure:
            message = (
                f"{failure}; {_NAMES[serving_mode(tenant)]} serves the tenant, and the move is tried again"
            )
            log.warning("failed to move tenant; retrying", extra={"tenant": name, "error": str(failure)})
            await self._report(tenant, Condition(MOVING, True, "Failed", message))
            return Result(after_seconds=RETRY_SECONDS)
        log.info("tenant moved", extra={"tenant": name, "mode": to})
        return Result(after_seconds=0.0)

    async def finish_on_plane(
        self, tenant: Object, servers: Sequence[RunningServer], keys: PlaneKeys, *, has_joined: bool
    ) -> Result:
        """After a move to its own server, or one from it that was given up: nothing of the tenant stays at home."""
        if not servers or self._connect is None:
            return Result(after_seconds=PENDING_SECONDS)
        name = TenantId(objects.name(tenant))
        async with self._connect(servers[0].url, authorities(keys)) as plane:
            await moving.open_(plane, name)
        if not has_joined:
            return Result(after_seconds=PENDING_SECONDS)
        if await moving.is_closed(self._home(), name):
            await content.empty(self._home(), name)
        await self._report(tenant, _done(DEDICATED))
        return Result(after_seconds=0.0)

    async def open_home(self, tenant: Object) -> None:
        """After a move to the home plane, or one from it that was given up."""
        await moving.open_(self._home(), TenantId(objects.name(tenant)))

    async def finish_at_home(self, tenant: Object) -> None:
        """When nothing of its own server is left."""
        await self._report(tenant, _done(SHARED), without=_OF_PLANE)

    async def _report(self, tenant: Object, condition: Condition, without: Sequence[str] = ()) -> None:
        status = tenant.setdefault("status", {})
        before = status.get("conditions") or []
        kept = [each for each in before if each.get("type") not in without]
        status["conditions"] = conditions.updated(kept, [condition], self._clock())
        if status["conditions"] != before:
            written = await self._home().update(SYSTEM, TENANTS, tenant, subresource="status")
            tenant["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"]


def _done(mode: str) -> Condition:
    return Condition(MOVING, False, "Moved", f"The tenant is served by {_NAMES[mode]}")
