"""Nodes' usage, fetched when wanted and kept for some seconds.

One fetch of a node serves everybody who asks meanwhile, of whatever tenant. A node that does not answer is waited
for once; until it answers again it is asked in the background, and what it would say is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Struct

from alcove.api.errors import ApiError
from alcove.api.node_api import USAGE_PATH, NodeSummary
from alcove.apiserver.reader import CacheReader
from alcove.apiserver.streams.agent_addresses import AgentAddress, agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of
from alcove.component.tasks import spawn
from alcove.http.errors import HttpError

KEPT_SECONDS = 10.0
FETCH_SECONDS_MAX = 5.0
WAIT_SECONDS_MAX = 3.0
AT_ONCE_MAX = 16
NODES_KEPT_MAX = 8_192
SUMMARY_BYTES_MAX = 16 << 20


class _Kept(Struct, frozen=True):
    at: float
    summary: NodeSummary | None
    """None: the node did not answer."""


class UsageCollector:
    def __init__(
        self, reader: CacheReader, agents: AgentConnector, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reader = reader
        self._agents = agents
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE_MAX)

    async def of(self, nodes: Iterable[str]) -> Mapping[str, NodeSummary]:
        """What is known of these nodes, by name; of some perhaps nothing."""
        wanted = set(nodes)
        awaited = [task for node in wanted if (task := self._refresh(node)) is not None]
        if awaited:
            await asyncio.wait(awaited, timeout=WAIT_SECONDS_MAX)
        kept = {node: kept for node in wanted if (kept := self._fresh(node)) is not None}
        return {node: each.summary for node, each in kept.items() if each.summary is not None}

    async def close(self) -> None:
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fresh(self, node: str) -> _Kept | None:
        kept = self._kept.get(node)
        return kept if kept is not None and self._clock() - kept.at < KEPT_SECONDS else None

    def _refresh(self, node: str) -> asyncio.Task[None] | None:
        """Sees to it that the node is asked if need be; what to wait for, None: nothing."""
        if self._fresh(node) is not None:
            return None
        kept = self._kept.get(node)
        task = self._fetching.get(node)
        if task is None:
            task = self._fetching[node] = spawn(f"usage of {node}", self._fetch(node))
        return task if kept is None or kept.summary is not None else None

    async def _fetch(self, node: str) -> None:
        summary = None
        try:
            async with self._room, asyncio.timeout(FETCH_SECONDS_MAX):
                summary = await self._ask(agent_address(self._reader, node))
        except (ApiError, ConnectionError, HttpError, TimeoutError, msgspec.MsgspecError):
            pass  # Its metrics are missing: that is all that is to be told.
        finally:
            del self._fetching[node]
            if len(self._kept) >= NODES_KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[node] = _Kept(self._clock(), summary)

    async def _ask(self, address: AgentAddress) -> NodeSummary:
        agent = await self._agents.connect(address)
        try:
            await ask(agent, address, "GET", USAGE_PATH, {})
            if agent.status != 200:
                raise await error_of(agent)
            return msgspec.json.decode(await agent.body(SUMMARY_BYTES_MAX), type=NodeSummary)
        finally:
            agent.close()
