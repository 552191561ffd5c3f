"""create of sight.alcove.io/traces: what kernels do with a packet that a pod would send, first that of the pod's node, then that of
the destination's; and, if that is asked for, what comes back for a real one, and what the pod's DNS server says of a name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from alcove.api import destinations
from alcove.api.errors import ApiError, BadRequest, NotFound, ServiceUnavailable
from alcove.api.ids import Key
from alcove.api.node_api import KernelTrace, NameAnswer, pod_path
from alcove.api.objects import Object
from alcove.api.resources import PODS
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.nodes import is_visible
from alcove.apiserver.resources import body
from alcove.apiserver.responses import json_response
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.streams.agent_addresses import agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of, unreachable
from alcove.http.errors import HttpError
from alcove.http.messages import HttpResponse

PROTOCOLS = ("TCP", "UDP", "SCTP")
FETCH_SECONDS_MAX = 10.0
BYTES_MAX = 1 << 20
NAME_LENGTH_MAX = 253
HIDDEN_NODE = "another node"
"""Stands for a node that runs no pod of the tenant."""
T = TypeVar("T")


class TracesApi:
    def __init__(self, services: ApiServerServices, agents: AgentConnector, plane: str) -> None:
        """`plane` is this server's plane as nodes name it."""
        self._services = services
        self._agents = agents
        self._plane = plane

    async def answer(self, call: ApiCall) -> HttpResponse:
        obj = await body.read(self._services, call)
        spec = obj.get("spec") or {}
        query = _query(spec)
        is_live = {"live": "true"} if spec.get("live") else {}
        name = spec.get("pod") or ""
        looked_up = spec.get("name") or ""
        entry = self._pod(call, call.namespace, name)
        if entry is None:
            raise NotFound.of(PODS, name)
        if not entry.node:
            raise BadRequest(f'pod "{name}" is not on a node yet')
        status: Object = {"node": entry.node}
        if looked_up:
            status["lookup"] = await self._looked_up(call, entry, looked_up)
        if query:
            sent = await self._fetch(call, entry, "trace", {**query, **is_live}, KernelTrace)
            status |= self._shown(call, sent)
            if receiver := await self._received(call, entry.node, sent, query):
                status["receiver"] = receiver
        return json_response(201, {**obj, "status": status})

    async def _looked_up(self, call: ApiCall, entry: CacheEntry, name: str) -> Object:
        """What the DNS server says; it does not keep the packet from being tried."""
        try:
            answer = await self._fetch(call, entry, "lookup", {"name": name}, NameAnswer)
        except BadRequest:
            raise
        except ApiError as error:
            return {"name": name, "failure": f"not asked: {error}"}
        found: Object = msgspec.to_builtins(answer)
        return found

    def _pod(self, call: ApiCall, namespace: str, name: str) -> CacheEntry | None:
        return self._services.cache.entry(Key(PODS, call.tenant, namespace, name)) if name else None

    async def _received(
        self, call: ApiCall, sender: str, sent: KernelTrace, query: Mapping[str, str]
    ) -> Object | None:
        """What the destination's node does with the packet; None if it does not come to another node."""
        end = sent.destination
        entry = self._pod(call, end.namespace, end.name) if end.kind == "Pod" and sent.next_node else None
        if entry is None or entry.node in ("", sender):
            return None
        arriving = {"address": end.address, "port": str(end.port), "source": sent.source, "sender": sender}
        try:
            received = await self._fetch(call, entry, "trace", {**query, **arriving}, KernelTrace)
        except ApiError as error:
            return {"node": entry.node, "message": f"not tried: {error}"}
        return {"node": entry.node, **self._shown(call, received)}

    def _shown(self, call: ApiCall, trace: KernelTrace) -> Object:
        fields: Object = msgspec.to_builtins(trace)
        fields.pop("source", None)
        node = trace.next_node
        if node and not call.identity.is_system and not is_visible(self._services.cache, call.tenant, node):
            # One that only passes packets on, or has an address that nobody has: its name is not the tenant's to know.
            fields["nextNode"] = HIDDEN_NODE
        return fields

    async def _fetch(
        self, call: ApiCall, pod: CacheEntry, verb: str, query: Mapping[str, str], answer: type[T]
    ) -> T:
        """Asks the pod's node."""
        node, uid = pod.node, pod.decode()["metadata"]["uid"]
        path = pod_path(self._plane, call.tenant, pod.key.namespace, pod.key.name, uid, verb)
        address = agent_address(self._services.cache, node)
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                agent = await self._agents.connect(call.identity.tenant, address)
                try:
                    await ask(agent, address, "GET", f"{path}?{urlencode(query)}", {})
                    if agent.status != 200:
                        raise await error_of(agent)
                    return msgspec.json.decode(await agent.body(BYTES_MAX), type=answer)
                finally:
                    agent.close()
        except (ConnectionError, HttpError, TimeoutError) as error:
            raise unreachable(node, "no response from its agent") from error
        except msgspec.MsgspecError as error:
            raise ServiceUnavailable(f'node "{node}" runs another version') from error


def _query(spec: Object) -> dict[str, str]:
    """The destination, for the node; empty if only a name is to be looked up. Raises BadRequest."""
    name = spec.get("name") or ""
    if len(name) > NAME_LENGTH_MAX:
        raise BadRequest(f"spec.name must be no more than {NAME_LENGTH_MAX} characters")
    if name and not spec.get("address") and not spec.get("live"):
        return {}
    address, protocol, port = spec.get("address") or "", spec.get("protocol") or "TCP", spec.get("port") or 0
    if destinations.parse(address) is None:
        raise BadRequest("spec.address must be an IP address")
    if protocol not in PROTOCOLS:
        raise BadRequest(f"spec.protocol must be one of {', '.join(PROTOCOLS)}")
    if not 0 <= port < 1 << 16:
        raise BadRequest("spec.port must be between 0 and 65535")
    return {"address": address, "port": str(port), "protocol": protocol}
