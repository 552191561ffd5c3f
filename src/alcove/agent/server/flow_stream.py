"""GET of flows with `follow`: each new flow once, and drops again when there are more, a line of JSON for some of them.

What is new is sent every FOLLOW_SECONDS, and looked for more often (`FlowFollower.poll`). Nothing is read while the client does not
take what was sent: what is then too much is left out, and the next line says how many flows that were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from alcove.agent.network.flow_changes import FlowChanges
from alcove.agent.network.flow_reports import FlowSelection
from alcove.api.ids import TenantId
from alcove.api.node_api import NodeFlows
from alcove.client.keys import PlaneId
from alcove.component.tasks import stop
from alcove.http.streams import HttpServerStream

FOLLOW_SECONDS = 1.0
STREAMS_MAX = 32
"""Streams of flows at the same time on a node; a tenant may have at most as many as are free after it."""
LINE_FLOWS_MAX = 100
REMEMBERED_MAX = 10_000


class FlowFollower(Protocol):
    def poll(self) -> float:
        """Looks for what is new. Returns after how many seconds that has to be done again."""

    async def read(self) -> NodeFlows:
        """What is new since the last call; at first, what was there before. It may have some flows again."""


FollowFlows = Callable[[PlaneId, TenantId | None, FlowSelection], FlowFollower]


async def serve(connection: HttpServerStream, follower: FlowFollower, limit: int) -> None:
    """Runs until the client disconnects."""
    await connection.begin("application/json")
    sending = asyncio.create_task(send(connection.chunk, follower, limit))
    leaving = asyncio.create_task(_wait_for_disconnect(connection))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        await stop(sending, leaving)


async def send(write: Callable[[bytes], Awaitable[None]], follower: FlowFollower, limit: int) -> None:
    """Sends flows until cancelled, at most `limit` at a time. Raises what `write` and `read` raise."""
    changes = FlowChanges(REMEMBERED_MAX, with_growth=False)
    while True:
        found = await follower.read()
        changed = changes.of(found.flows)
        lost = found.left_out + max(0, len(changed) - limit)
        for line in lines(NodeFlows(tuple(changed[-limit:]), lost)):
            await write(line)
        await poll_for(follower, FOLLOW_SECONDS)


async def poll_for(follower: FlowFollower, seconds: float) -> None:
    """Looks for what is new, as often as the follower wants it."""
    now = asyncio.get_running_loop().time
    end, left = now() + seconds, seconds
    while left >= 0:
        await asyncio.sleep(min(left, follower.poll()))
        left = end - now()


def lines(flows: NodeFlows) -> list[bytes]:
    """The flows in lines of LINE_FLOWS_MAX, the first with the number of those that are left out; an empty line if there
    are none, by which the reader knows that the node still responds."""
    parts = [flows.flows[at : at + LINE_FLOWS_MAX] for at in range(0, len(flows.flows), LINE_FLOWS_MAX)]
    left_out = [flows.left_out, *(0 for _ in parts)]
    return [
        msgspec.json.encode(NodeFlows(part, lost)) + b"\n"
        for part, lost in zip(parts, left_out, strict=False)
    ] or [b"\n"]


async def _wait_for_disconnect(connection: HttpServerStream) -> None:
    while await connection.read():
        pass
