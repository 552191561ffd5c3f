"""Usage of nodes, fetched on demand and cached for KEPT_SECONDS.

Concurrent requests of all tenants share one fetch of a node. A request waits for a node that does not respond
only once; until it responds again it is fetched in the background, and its metrics are missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Struct

from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM
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


class _CachedSummary(Struct, frozen=True):
    at: float
    summary: NodeSummary | None
    """None if the node did not respond."""


class UsageCollector:
    def __init__(
        self, reader: CacheReader, agents: AgentConnector, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reader = reader
        self._agents = agents
        self._clock = clock
        self._cached: dict[str, _CachedSummary] = {}
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._fetch_slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def of(self, nodes: Iterable[str]) -> Mapping[str, NodeSummary]:
        """Summaries of these nodes by name, without those that are not available."""
        names = set(nodes)
        awaited = [task for node in names if (task := self._refresh(node)) is not None]
        if awaited:
            await asyncio.wait(awaited, timeout=WAIT_SECONDS_MAX)
        cached = {node: cached for node in names if (cached := self._fresh(node)) is not None}
        return {node: each.summary for node, each in cached.items() if each.summary is not None}

    async def close(self) -> None:
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fresh(self, node: str) -> _CachedSummary | None:
        cached = self._cached.get(node)
        return cached if cached is not None and self._clock() - cached.at < KEPT_SECONDS else None

    def _refresh(self, node: str) -> asyncio.Task[None] | None:
        """Starts a fetch unless the cached summary is fresh. Returns the task to wait for; None if there is
        none."""
        if self._fresh(node) is not None:
            return None
        cached = self._cached.get(node)
        task = self._fetching.get(node)
        if task is None:
            task = self._fetching[node] = spawn(f"usage of {node}", self._fetch(node))
        return task if cached is None or cached.summary is not None else None

    async def _fetch(self, node: str) -> None:
        summary = None
        try:
            async with self._fetch_slots, asyncio.timeout(FETCH_SECONDS_MAX):
                summary = await self._request(agent_address(self._reader, node))
        except (ApiError, ConnectionError, HttpError, TimeoutError, msgspec.MsgspecError):
            pass  # The node's metrics are missing from the response; there is nothing else to report.
        finally:
            del self._fetching[node]
            if len(self._cached) >= NODES_KEPT_MAX:
                del self._cached[next(iter(self._cached))]
            self._cached[node] = _CachedSummary(self._clock(), summary)

    async def _request(self, address: AgentAddress) -> NodeSummary:
        agent = await self._agents.connect(SYSTEM, address)
        try:
            await ask(agent, address, "GET", USAGE_PATH, {})
            if agent.status != 200:
                raise await error_of(agent)
            return msgspec.json.decode(await agent.body(SUMMARY_BYTES_MAX), type=NodeSummary)
        finally:
            agent.close()
