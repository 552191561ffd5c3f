"""list of sight.alcove.io/flows: connections and drops of the caller's networks, from the nodes that have its pods.

Nothing is stored and nothing is cached. A node that does not respond is left out, and a warning in the response says so.
Many flows take long to decode and to render: that is computed in threads, flow by flow, and only as many as are shown
are kept of all nodes.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from alcove.api import meta
from alcove.api.encode import encode
from alcove.api.errors import ApiError, BadRequest
from alcove.api.ids import SYSTEM, Key, Revision, TenantId
from alcove.api.node_api import FlowEnd, FlowReport, flows_path
from alcove.api.objects import Object
from alcove.api.resources import NODES
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.nodes import visible
from alcove.apiserver.render import render_list
from alcove.apiserver.resources.options import list_options
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.streams.agent_addresses import agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of
from alcove.component.fair_slots import FairSlots
from alcove.http.errors import HttpError
from alcove.http.messages import HttpResponse

VERDICTS = ("forwarded", "dropped")
FETCH_SECONDS_MAX = 10.0
AT_ONCE_MAX = 16
"""Nodes that are asked at the same time, in turns between tenants; a tenant alone gets half."""
LIMIT_DEFAULT, LIMIT_MAX = 1_000, 10_000
BYTES_MAX = 16 << 20
RENDERED_BYTES = 512
"""About what one flow takes in a response."""
NAMED_MAX = 3
"""Nodes or networks that a warning names."""


class _RawFlows(Struct, frozen=True):
    """`NodeFlows` before the flows are decoded."""

    flows: tuple[msgspec.Raw, ...] = ()
    left_out: int = 0
    full: tuple[str, ...] = ()


class NewestFlows:
    """The newest flows of several nodes. Not for several threads at the same time."""

    def __init__(self, tenant: TenantId | None, limit: int) -> None:
        """`tenant`: None for all."""
        self._tenant = tenant
        self._limit = limit
        self.flows: list[tuple[str, FlowReport]] = []
        """By node, the newest first."""
        self.left_out = 0
        self.full: set[str] = set()
        self.silent: list[str] = []
        """Nodes that did not respond."""

    def add(self, node: str, body: bytes) -> None:
        """Adds a node's response; one that cannot be read counts as none."""
        try:
            answer = msgspec.json.decode(body, type=_RawFlows)
            # One by one: while a thread decodes, the event loop waits.
            reports = [msgspec.json.decode(each, type=FlowReport) for each in answer.flows]
        except msgspec.MsgspecError:
            self.silent.append(node)
            return
        # A node's word is not enough to show a tenant what is another's.
        more = [(node, flow) for flow in reports if self._tenant in (None, flow.tenant)]
        count = len(self.flows) + len(more)
        self.flows = heapq.nlargest(self._limit, (*self.flows, *more), key=lambda pair: pair[1].end)
        self.left_out += answer.left_out + count - len(self.flows)
        self.full.update(answer.full)

    def warnings(self) -> list[str]:
        """What is missing from the response."""
        warnings = []
        if self.silent:
            names = _names(sorted(self.silent))
            warnings.append(f"flows of {len(self.silent)} nodes are missing, they did not respond: {names}")
        if self.full:
            names = _names(sorted(self.full))
            warnings.append(
                f"older flows are missing, the tables of connections of these networks are full: {names}"
            )
        return warnings


class FlowsApi:
    def __init__(
        self,
        services: ApiServerServices,
        agents: AgentConnector,
        plane: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`plane` is this server's plane as nodes name it."""
        self._services = services
        self._agents = agents
        self._plane = plane
        self._clock = clock
        self._slots: FairSlots[TenantId] = FairSlots(AT_ONCE_MAX, unlimited=SYSTEM)

    async def answer(self, call: ApiCall) -> HttpResponse:
        limit = min(list_options(call).limit or LIMIT_DEFAULT, LIMIT_MAX)
        path = flows_path(self._plane, call.list_tenant or "")
        path += "?" + flow_query(call, limit, since_of(call, self._clock()))
        newest, tenant = NewestFlows(call.list_tenant, limit), call.identity.tenant
        nodes = nodes_with_flows(self._services.cache, call)
        await asyncio.gather(*(self._fetch(tenant, node, path, newest) for node in nodes))
        call.warn(newest.warnings())
        size = len(newest.flows) * RENDERED_BYTES
        rendered: HttpResponse = await self._services.threads.for_size(
            tenant, size, partial(_rendered, call, newest, self._services.cache.revision)
        )
        return rendered

    async def _fetch(self, tenant: TenantId, node: str, path: str, newest: NewestFlows) -> None:
        """Adds the flows of a node. Raises TooLarge, TooManyRequests."""
        # The slot is kept until the body is decoded: it bounds how many are in memory.
        async with self._slots.slot(tenant):
            body = await self._body(tenant, node, path)
            if body is None:
                newest.silent.append(node)
                return
            await self._services.threads.for_size(tenant, len(body), partial(newest.add, node, body))

    async def _body(self, tenant: TenantId, node: str, path: str) -> bytes | None:
        """The node's response; None if there is none."""
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                address = agent_address(self._services.cache, node)
                agent = await self._agents.connect(tenant, address)
                try:
                    await ask(agent, address, "GET", path, {})
                    if agent.status != 200:
                        raise await error_of(agent)
                    return await agent.body(BYTES_MAX)
                finally:
                    agent.close()
        except (ApiError, ConnectionError, HttpError, TimeoutError):
            return None


def flow_query(call: ApiCall, limit: int, since: float) -> str:
    """The query for nodes. Raises BadRequest."""
    query = call.query
    verdict = query.get("verdict", "")
    if verdict not in ("", *VERDICTS):
        raise BadRequest(f'invalid verdict "{verdict}": must be one of {", ".join(VERDICTS)}')
    wanted = {
        "since": str(since) if since else "",
        "verdict": verdict,
        "namespace": call.list_namespace or "",
        "pod": query.get("pod", ""),
        "limit": str(limit),
    }
    return urlencode({name: value for name, value in wanted.items() if value})


def since_of(call: ApiCall, now: float) -> float:
    """Since when flows are asked for, in epoch seconds; 0 for all. Raises BadRequest."""
    seconds = call.query.get("sinceSeconds", "")
    if seconds and not (seconds.isascii() and seconds.isdigit() and len(seconds) < 12):
        raise BadRequest(f'invalid sinceSeconds "{seconds}": must be a non-negative integer')
    return now - int(seconds) if seconds else 0.0


def nodes_with_flows(cache: Cache, call: ApiCall) -> list[str]:
    """The nodes that have pods of the tenant; for all tenants, every node."""
    if call.list_tenant is None:
        return [entry.key.name for entry in cache.entries(SYSTEM, NODES, None)]
    return visible(cache, call.list_tenant)


def _rendered(call: ApiCall, newest: NewestFlows, revision: Revision) -> HttpResponse:
    entries = [flow_entry(call, node, flow, revision) for node, flow in newest.flows]
    more: Object = {"remainingItemCount": newest.left_out} if newest.left_out else {}
    return HttpResponse(200, render_list(call.view, entries, revision, more), call.view.content_type)


def flow_entry(call: ApiCall, node: str, flow: FlowReport, revision: Revision, lost: int = 0) -> CacheEntry:
    """The flow as an object. `lost`: how many were left out before it."""
    namespace = call.list_namespace or _namespace((flow.source, flow.destination))
    name = _name(node, flow)
    key = Key(call.kind.group_resource, TenantId(flow.tenant), namespace, name)
    metadata: Object = {
        "name": name,
        "tenant": flow.tenant,
        "creationTimestamp": meta.format_time(flow.start),
    }
    if namespace:
        metadata["namespace"] = namespace
    fields = msgspec.to_builtins(flow)
    del fields["tenant"]
    times = {"start": meta.format_time(flow.start), "end": meta.format_time(flow.end)}
    names = {"apiVersion": call.kind.api_version, "kind": call.kind.kind, "metadata": metadata}
    told = {"lost": lost} if lost else {}
    return CacheEntry(key, revision, encode({**names, "node": node, **fields, **times, **told}))


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")


def _namespace(ends: Iterable[FlowEnd]) -> str:
    return next((each.namespace for each in ends if each.namespace), "")


def _name(node: str, flow: FlowReport) -> str:
    """The same for the same flow on the same node."""
    ends = (flow.source.address, flow.source.port, flow.destination.address, flow.destination.port)
    text = repr((node, flow.network, flow.protocol, flow.verdict, flow.reason, *ends))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
