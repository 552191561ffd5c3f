"""create of sight.alcove.io/traces: what the kernel of a pod's node does with a packet that the pod would send."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

import msgspec

from alcove.api import destinations
from alcove.api.errors import BadRequest, NotFound, ServiceUnavailable
from alcove.api.ids import Key, TenantId
from alcove.api.node_api import KernelTrace, pod_path
from alcove.api.objects import Object
from alcove.api.resources import PODS
from alcove.apiserver.call import ApiCall
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
        name = spec.get("pod") or ""
        entry = self._services.cache.entry(Key(PODS, call.tenant, call.namespace, name)) if name else None
        if entry is None:
            raise NotFound.of(PODS, name)
        if not entry.node:
            raise BadRequest(f'pod "{name}" is not on a node yet')
        uid = entry.decode()["metadata"]["uid"]
        path = pod_path(self._plane, call.tenant, call.namespace, name, uid, "trace")
        traced = await self._fetch(call.identity.tenant, entry.node, f"{path}?{query}")
        return json_response(201, {**obj, "status": {"node": entry.node, **msgspec.to_builtins(traced)}})

    async def _fetch(self, tenant: TenantId, node: str, path: str) -> KernelTrace:
        address = agent_address(self._services.cache, node)
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                agent = await self._agents.connect(tenant, address)
                try:
                    await ask(agent, address, "GET", path, {})
                    if agent.status != 200:
                        raise await error_of(agent)
                    return msgspec.json.decode(await agent.body(BYTES_MAX), type=KernelTrace)
                finally:
                    agent.close()
        except (ConnectionError, HttpError, TimeoutError) as error:
            raise unreachable(node, "no response from its agent") from error
        except msgspec.MsgspecError as error:
            raise ServiceUnavailable(f'node "{node}" runs another version') from error


def _query(spec: Object) -> str:
    """The destination, for the node. Raises BadRequest."""
    address, protocol, port = spec.get("address") or "", spec.get("protocol") or "TCP", spec.get("port") or 0
    if destinations.parse(address) is None:
        raise BadRequest("spec.address must be an IP address")
    if protocol not in PROTOCOLS:
        raise BadRequest(f"spec.protocol must be one of {', '.join(PROTOCOLS)}")
    if not 0 <= port < 1 << 16:
        raise BadRequest("spec.port must be between 0 and 65535")
    return urlencode({"address": address, "port": port, "protocol": protocol})
