"""Dedicated planes that a leader follows: each is fenced, then listened to, then told of as known.

    join ── the fence is taken ──▶ all of it is listed ──▶ known ── the fence is looked after ──▶ leave

A plane that is away holds up nobody: it is tried again until it is there, or leaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from alcove.api.errors import ApiError
from alcove.client import fencing
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.fencing import Confirm
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
LOOK_SECONDS = 5.0
"""How often it is looked whether the fence is still there."""


class PlaneJoining:
    def __init__(
        self,
        planes: Planes,
        tasks: BackgroundTasks,
        fence: str,
        confirm: Confirm,
        known: Callable[[PlaneId], None] = lambda _plane: None,
    ) -> None:
        """`planes` write under `fence`, which is ours on the home plane. `known` is called with a plane when
        all of it is in the mirrors, and nothing comes true there but what is written under the fence."""
        self._planes = planes
        self._tasks = tasks
        self._fence = fence
        self._confirm = confirm
        self._known = known
        self._following: dict[PlaneId, asyncio.Task[None]] = {}

    def ids(self) -> list[PlaneId]:
        return [HOME, *self._following]

    def join(self, plane: PlaneId, transport: Transport) -> None:
        self._planes.awaited.add(plane)
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
        # Without the fence: it is what this client takes.
        client = Client(transport, user_agent=self._planes.user_agent, permitted=self._planes.permitted)
        while True:
            if await self._take_fence(plane, client):
                break
            await asyncio.sleep(AGAIN_SECONDS)
        await self._planes.join_whole(plane, transport)
        self._known(plane)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._take_fence(plane, client)

    async def _take_fence(self, plane: PlaneId, client: Client) -> bool:
        try:
            await fencing.take(client, self._fence, self._confirm)
        except (ApiError, ClientError) as error:
            log.info("not fenced", extra={"plane": plane, "error": str(error)})
            return False
        return True
