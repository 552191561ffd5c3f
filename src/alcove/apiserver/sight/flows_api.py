"""list of sight.alcove.io/flows: connections and drops of the caller's networks, from the nodes that have its pods.

Nothing is stored and nothing is cached. A node that does not respond is left out, and a warning in the response says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from alcove.api import meta
from alcove.api.encode import encode
from alcove.api.errors import ApiError, BadRequest
from alcove.api.ids import SYSTEM, Key, TenantId
from alcove.api.node_api import FlowEnd, FlowReport, NodeFlows, flows_path
from alcove.api.objects import Object
from alcove.api.resources import NODES
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.nodes import visible
from alcove.apiserver.render import render_list
from alcove.apiserver.resources.options import list_options
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.streams.agent_addresses import agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of
from alcove.http.errors import HttpError
from alcove.http.messages import HttpResponse

VERDICTS = ("forwarded", "dropped")
FETCH_SECONDS_MAX = 10.0
AT_ONCE_MAX = 16
LIMIT_DEFAULT, LIMIT_MAX = 1_000, 10_000
BYTES_MAX = 16 << 20
NAMED_MAX = 3
"""Nodes or networks that a warning names."""


class _NodeAnswer(Struct, frozen=True):
    node: str
    flows: NodeFlows | None
    """None if the node did not respond."""


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
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def answer(self, call: ApiCall) -> HttpResponse:
        limit = min(list_options(call).limit or LIMIT_DEFAULT, LIMIT_MAX)
        path = flows_path(self._plane, call.list_tenant or "") + "?" + self._query(call, limit)
        answers = await asyncio.gather(*(self._fetch(node, path) for node in self._nodes(call)))
        _warn(call, answers)
        flows = [
            (each.node, flow)
            for each in answers
            if each.flows is not None
            for flow in each.flows.flows
            # A node's word is not enough to show a tenant what is another's.
            if call.list_tenant in (None, flow.tenant)
        ]
        flows.sort(key=lambda pair: -pair[1].end)
        left_out = sum(each.flows.left_out for each in answers if each.flows is not None)
        left_out += max(0, len(flows) - limit)
        entries = [self._entry(call, node, flow) for node, flow in flows[:limit]]
        more: Object = {"remainingItemCount": left_out} if left_out else {}
        body = render_list(call.view, entries, self._services.cache.revision, more)
        return HttpResponse(200, body, call.view.content_type)

    def _query(self, call: ApiCall, limit: int) -> str:
        """Raises BadRequest."""
        query = call.query
        verdict = query.get("verdict", "")
        if verdict not in ("", *VERDICTS):
            raise BadRequest(f'invalid verdict "{verdict}": must be one of {", ".join(VERDICTS)}')
        seconds = query.get("sinceSeconds", "")
        if seconds and not (seconds.isascii() and seconds.isdigit() and len(seconds) < 12):
            raise BadRequest(f'invalid sinceSeconds "{seconds}": must be a non-negative integer')
        wanted = {
            "since": str(self._clock() - int(seconds)) if seconds else "",
            "verdict": verdict,
            "namespace": call.list_namespace or "",
            "pod": query.get("pod", ""),
            "limit": str(limit),
        }
        return urlencode({name: value for name, value in wanted.items() if value})

    def _nodes(self, call: ApiCall) -> list[str]:
        """The nodes that have pods of the tenant; for all tenants, every node."""
        cache = self._services.cache
        if call.list_tenant is None:
            return [entry.key.name for entry in cache.entries(SYSTEM, NODES, None)]
        return visible(cache, call.list_tenant)

    async def _fetch(self, node: str, path: str) -> _NodeAnswer:
        try:
            async with self._slots, asyncio.timeout(FETCH_SECONDS_MAX):
                address = agent_address(self._services.cache, node)
                agent = await self._agents.connect(address)
                try:
                    await ask(agent, address, "GET", path, {})
                    if agent.status != 200:
                        raise await error_of(agent)
                    body = await agent.body(BYTES_MAX)
                finally:
                    agent.close()
            return _NodeAnswer(node, msgspec.json.decode(body, type=NodeFlows))
        except (ApiError, ConnectionError, HttpError, TimeoutError, msgspec.MsgspecError):
            return _NodeAnswer(node, None)

    def _entry(self, call: ApiCall, node: str, flow: FlowReport) -> CacheEntry:
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
        return CacheEntry(
            key, self._services.cache.revision, encode({**names, "node": node, **fields, **times})
        )


def _warn(call: ApiCall, answers: Sequence[_NodeAnswer]) -> None:
    """Says in the response what is missing from it."""
    silent = sorted(each.node for each in answers if each.flows is None)
    if silent:
        call.warn([f"flows of {len(silent)} nodes are missing, they did not respond: {_names(silent)}"])
    full = sorted({name for each in answers if each.flows is not None for name in each.flows.full})
    if full:
        call.warn(
            [f"older flows are missing, the tables of connections of these networks are full: {_names(full)}"]
        )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")


def _namespace(ends: Iterable[FlowEnd]) -> str:
    return next((each.namespace for each in ends if each.namespace), "")


def _name(node: str, flow: FlowReport) -> str:
    """The same for the same flow on the same node."""
    ends = (flow.source.address, flow.source.port, flow.destination.address, flow.destination.port)
    text = repr((node, flow.network, flow.protocol, flow.verdict, flow.reason, *ends))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
