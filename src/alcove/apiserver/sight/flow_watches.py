"""watch of sight.alcove.io/flows: an event for each new flow, as the nodes with the tenant's pods report it.

Each node sends lines of flows (agent/server/flow_stream.py), and is not read faster than the client reads: a node that cannot
send leaves flows out, and says how many. The watch ends with an error when the tenant is deleted, or the pod that it is
about.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial

import msgspec

from alcove.api.errors import ApiError, InternalError, NotFound
from alcove.api.ids import SYSTEM, Key, Revision
from alcove.api.node_api import FlowReport, NodeFlows, flows_path
from alcove.api.resources import PODS, TENANTS
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEvent, CacheEventType
from alcove.apiserver.call import ApiCall
from alcove.apiserver.resources.options import list_options
from alcove.apiserver.resources.watching import DEFAULT_SECONDS
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.sight.flows_api import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    flow_entry,
    flow_query,
    nodes_with_flows,
    since_of,
)
from alcove.apiserver.streams.agent_addresses import agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of
from alcove.apiserver.streams.connect import StreamLimits
from alcove.apiserver.watch_events import encode, error_event
from alcove.component.tasks import spawn, stop
from alcove.http.errors import HttpError
from alcove.http.messages import HttpResponse, ResponseWriter

NODES_SECONDS = 5.0
"""How often it is looked for nodes that have got pods of the tenant, and for those that have to be asked again."""
SILENT_SECONDS_MAX = 60.0
"""A node sends a line every second or so; one that is silent for longer is asked again."""
OVERLAP_SECONDS = 3.0
LINE_BYTES_MAX = 1 << 20


class FlowWatches:
    def __init__(
        self,
        services: ApiServerServices,
        agents: AgentConnector,
        plane: str,
        streams: StreamLimits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`plane` is this server's plane as nodes name it. A watch, and each node that it reads, count as `streams`."""
        self._services = services
        self._agents = agents
        self._plane = plane
        self._streams = streams
        self._clock = clock

    def answer(self, call: ApiCall) -> HttpResponse:
        """Raises BadRequest, TooManyRequests."""
        options, now = list_options(call), self._clock()
        since = since_of(call, now)
        if options.revision and not since:
            since = now  # The client has listed what was there before.
        limit = min(options.limit or LIMIT_DEFAULT, LIMIT_MAX)
        flow_query(call, limit, since)
        watch = FlowWatch(self, call, limit, since, self._streams.enter(call.identity.tenant))
        return HttpResponse(200, watch)

    def nodes(self, call: ApiCall) -> list[str]:
        return nodes_with_flows(self._services.cache, call)

    def enter(self, call: ApiCall) -> Callable[[], None]:
        """Counts a node that is read. Raises TooManyRequests."""
        return self._streams.enter(call.identity.tenant)

    def ended(self, call: ApiCall) -> Callable[[], ApiError | None]:
        """A function that says why a watch that begins now has to end; None as long as it does not."""
        cache, keys = self._services.cache, _watched(self._services.cache, call)

        def error() -> ApiError | None:
            for group in keys:
                if not any(cache.entry(key) is not None for key in group):
                    return NotFound.of(group[0].resource, group[0].name)
            return None

        return error

    async def lines(self, call: ApiCall, node: str, limit: int, since: float) -> AsyncGenerator[bytes, None]:
        """The events of a node. Raises ApiError, ConnectionError, HttpError, TimeoutError, MsgspecError."""
        tenant = call.identity.tenant
        path = flows_path(self._plane, call.list_tenant or "")
        path += f"?follow=true&{flow_query(call, limit, since)}"
        address = agent_address(self._services.cache, node)
        agent = await self._agents.connect(tenant, address)
        try:
            await ask(agent, address, "GET", path, {})
            if agent.status != 200:
                raise await error_of(agent)
            async for line in split(agent.chunks()):
                if not line:
                    continue
                render = partial(events, call, node, line, self._services.cache.revision)
                yield await self._services.threads.for_size(tenant, len(line), render)
        finally:
            agent.close()

    def restart(self) -> float:
        """Since when flows are asked for of a node that is asked again, or that had no pods of the tenant before."""
        return self._clock() - NODES_SECONDS - OVERLAP_SECONDS


class FlowWatch:
    """One watch, as a `ResponseStream`."""

    def __init__(
        self, watches: FlowWatches, call: ApiCall, limit: int, since: float, done: Callable[[], None]
    ) -> None:
        """`done` is called once, at the end."""
        self._watches = watches
        self._call = call
        self._limit = limit
        self._since = since
        self._done = done
        self._ended = watches.ended(call)
        self._seconds_max = list_options(call).timeout_seconds or random.uniform(*DEFAULT_SECONDS)
        self._writer: ResponseWriter | None = None
        self._resumed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._task = spawn("watch of flows", self._run(writer))

    def resume(self) -> None:
        self._resumed.set()

    def stop(self) -> None:
        self._writer = None
        if self._task is not None:
            self._task.cancel()
        self._done()

    async def _run(self, writer: ResponseWriter) -> None:
        last = error_event(InternalError("the watch has failed: watch again"))
        try:
            async with asyncio.timeout(self._seconds_max):
                await self._follow_nodes(writer)
        except TimeoutError:
            last = b""
        except ApiError as error:
            last = error_event(error)
        finally:
            # Without a writer the client has disconnected.
            if self._writer is not None:
                self._writer = None
                writer.write(last)
                writer.finish()
                self._done()

    async def _follow_nodes(self, writer: ResponseWriter) -> None:
        """Raises the error that ends the watch."""
        following: dict[str, asyncio.Task[None]] = {}
        since = self._since
        try:
            while (error := self._ended()) is None:
                for node in self._watches.nodes(self._call):
                    if node not in following or following[node].done():
                        following[node] = self._start(writer, node, since)
                await asyncio.sleep(NODES_SECONDS)
                since = self._watches.restart()
            raise error
        finally:
            await stop(*following.values())

    def _start(self, writer: ResponseWriter, node: str, since: float) -> asyncio.Task[None]:
        """Raises TooManyRequests."""
        leave = self._watches.enter(self._call)
        task = spawn("flows of a node", self._follow(writer, node, since))
        task.add_done_callback(lambda _task: leave())
        return task

    async def _follow(self, writer: ResponseWriter, node: str, since: float) -> None:
        """Sends a node's flows, as long as it responds."""
        try:
            async with aclosing(self._watches.lines(self._call, node, self._limit, since)) as parts:
                async for lines in parts:
                    writer.write(lines)
                    while writer.paused:
                        self._resumed.clear()
                        await self._resumed.wait()
        except (ApiError, ConnectionError, HttpError, TimeoutError, msgspec.MsgspecError):
            pass  # It is asked again.


def _watched(cache: Cache, call: ApiCall) -> list[list[Key]]:
    """What a watch is about, if it exists: its tenant, and the pods of the name that it asks for. When all of a group are
    gone, the watch ends."""
    tenant, namespace, pod = call.list_tenant, call.list_namespace, call.query.get("pod", "")
    if tenant is None:
        return []
    groups = [[Key(TENANTS, SYSTEM, "", tenant)]]
    if pod and namespace:
        groups.append([Key(PODS, tenant, namespace, pod)])
    elif pod:
        groups.append([entry.key for entry in cache.entries(tenant, PODS) if entry.key.name == pod])
    return [group for group in groups if any(cache.entry(key) is not None for key in group)]


async def split(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a node's response. Raises TimeoutError if it is silent, and ConnectionError if a line is too long."""
    rest = b""
    while True:
        async with asyncio.timeout(SILENT_SECONDS_MAX):
            data = await anext(chunks, b"")
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise ConnectionError("the node sent a line that is too long")
        for line in lines:
            yield line


def events(call: ApiCall, node: str, line: bytes, revision: Revision) -> bytes:
    """The events for a line of a node. Raises MsgspecError."""
    found = msgspec.json.decode(line, type=NodeFlows)
    # A node's word is not enough to show a tenant what is another's.
    flows: list[FlowReport] = [each for each in found.flows if call.list_tenant in (None, each.tenant)]
    told = (found.left_out, *(0 for _ in flows))
    entries = [flow_entry(call, node, flow, revision, lost) for flow, lost in zip(flows, told, strict=False)]
    added = CacheEventType.ADDED
    return b"".join(encode(added, CacheEvent(added, entry, None), call.view) for entry in entries)
