"""Joins dedicated planes: each is mirrored, then reported as joined. For a leader it is fenced before.

    join ── the fence is taken ──▶ all resources are listed ──▶ joined ── the fence is checked ──▶ leave

A plane that cannot be reached does not delay the others: it is retried until it responds or leaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from alcove.api.errors import ApiError
from alcove.client import fencing
from alcove.client.client import DEDICATED, Client
from alcove.client.errors import ClientError, PlaneStopped
from alcove.client.fencing import Confirm
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
CHECK_SECONDS = 5.0
"""Interval at which the fence is checked."""


class PlaneJoining:
    def __init__(
        self,
        planes: Planes,
        tasks: BackgroundTasks,
        fence: str = "",
        confirm: Confirm | None = None,
        known: Callable[[PlaneId], None] = lambda _plane: None,
        ready: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`planes` write under `fence`, if there is one, which this process holds on the home plane. `known` is called with a
        plane when the mirrors have all its objects and the plane accepts only writes under the fence. `ready` is awaited before a plane is mirrored."""
        self._planes = planes
        self._tasks = tasks
        self._fence = fence
        self._confirm = confirm
        self._known = known
        self._ready = ready
        self._following: dict[PlaneId, asyncio.Task[None]] = {}

    def ids(self) -> list[PlaneId]:
        return [HOME, *self._following]

    def join(self, plane: PlaneId, transport: Transport) -> None:
        self._planes.awaited.add(plane)
        if not self._fence:
            self._planes.begin_join(plane, transport)
        work = self._follow(plane, transport)
        self._following[plane] = self._tasks.fatal(f"plane {plane}", work)

    async def leave(self, plane: PlaneId) -> None:
        self._planes.awaited.discard(plane)
        following = self._following.pop(plane)
        following.cancel()
        await asyncio.wait([following])
        if plane in self._planes:
            await self._planes.leave(plane)

    async def _follow(self, plane: PlaneId, transport: Transport) -> None:
        # This client sends no fence: it is used to take the fence.
        client = Client(
            transport,
            user_agent=self._planes.user_agent,
            permitted=self._planes.permitted,
            limits=DEDICATED,
        )
        while self._fence and not await self._take_fence(plane, client):  # noqa: ASYNC110 - nothing tells when to retry
            await asyncio.sleep(RETRY_SECONDS)
        if self._ready is not None:
            await self._ready()
        await self._planes.join_whole(plane, transport)
        self._known(plane)
        while self._fence:
            await asyncio.sleep(CHECK_SECONDS)
            await self._take_fence(plane, client)

    async def _take_fence(self, plane: PlaneId, client: Client) -> bool:
        assert self._confirm is not None
        try:
            await fencing.take(client, self._fence, self._confirm)
        except PlaneStopped:
            return False  # It is taken when the server runs again.
        except (ApiError, ClientError) as error:
            log.info("failed to fence plane; retrying", extra={"plane": plane, "error": str(error)})
            return False
        return True
