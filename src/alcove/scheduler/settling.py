"""Whether all that happened on a plane until now was seen here, though its watch says nothing while nothing happens."""

from __future__ import annotations

from alcove.api.ids import ALL
from alcove.client.client import Client
from alcove.client.keys import PlaneId
from alcove.client.mirror import Mirror
from alcove.client.watching import Happened

LOOK_SECONDS = 1


async def has_seen_all(client: Client, mirror: Mirror, plane: PlaneId) -> bool:
    """Whether the mirror has every change that was made before this was asked.

    What came after the mirror's last change, if anything, a short watch of our own tells. Raises ApiError
    and ClientError where the plane does not answer.
    """
    seen, selection = mirror.revision(plane), mirror.selection
    now = (await client.page(ALL, selection, limit=1)).revision
    missed, reached = seen, seen
    async with client.watch(ALL, selection, after=seen, seconds_max=LOOK_SECONDS) as watch:
        async for batch in watch.batches():
            for event in batch:
                reached = event.revision
                if event.happened is not Happened.BOOKMARK and reached <= now:
                    missed = reached
    return reached >= now and mirror.revision(plane) >= missed
