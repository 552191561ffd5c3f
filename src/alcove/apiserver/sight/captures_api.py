"""create of sight.alcove.io/captures: a pod's packets, relayed from its node as they come."""

from __future__ import annotations

from urllib.parse import urlencode

from alcove.api import capture_bounds, captures
from alcove.api.errors import BadRequest, NotFound
from alcove.api.ids import Key
from alcove.api.node_api import pod_path
from alcove.api.objects import Object
from alcove.api.resources import PODS
from alcove.apiserver.call import ApiCall
from alcove.apiserver.resources import body
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.streams.agent_addresses import agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of
from alcove.apiserver.streams.connect import StreamLimits
from alcove.apiserver.streams.relays import BodyRelay
from alcove.http.messages import HttpResponse

_NUMBERS = (
    ("seconds", capture_bounds.SECONDS_DEFAULT, capture_bounds.SECONDS_MAX),
    ("bytes", capture_bounds.BYTES_DEFAULT, capture_bounds.BYTES_MAX),
    ("packetBytes", capture_bounds.PACKET_BYTES_DEFAULT, capture_bounds.PACKET_BYTES_MAX),
)


class CapturesApi:
    def __init__(
        self, services: ApiServerServices, agents: AgentConnector, plane: str, streams: StreamLimits
    ) -> None:
        """`plane` is this server's plane as nodes name it."""
        self._services = services
        self._agents = agents
        self._plane = plane
        self._streams = streams

    async def answer(self, call: ApiCall) -> HttpResponse:
        spec = (await body.read(self._services, call)).get("spec") or {}
        query = capture_query(spec)
        name = spec.get("pod") or ""
        entry = self._services.cache.entry(Key(PODS, call.tenant, call.namespace, name)) if name else None
        if entry is None:
            raise NotFound.of(PODS, name)
        if not entry.node:
            raise BadRequest(f'pod "{name}" is not on a node yet')
        uid = entry.decode()["metadata"]["uid"]
        path = pod_path(self._plane, call.tenant, call.namespace, name, uid, "capture")
        address = agent_address(self._services.cache, entry.node)
        done = self._streams.enter(call.tenant)
        try:
            agent = await self._agents.connect(call.identity.tenant, address)
        except BaseException:
            done()
            raise
        try:
            await ask(agent, address, "GET", f"{path}?{query}", {})
            if agent.status != 200:
                raise await error_of(agent)
            return HttpResponse(200, BodyRelay(agent, done), captures.CONTENT_TYPE.encode())
        except BaseException:
            agent.close()
            done()
            raise


def capture_query(spec: Object) -> str:
    """The bounds and the filter, for the node. Raises BadRequest."""
    query: dict[str, int | str] = {}
    for name, default, most in _NUMBERS:
        query[name] = value = spec.get(name) or default
        if not 0 < value <= most:
            raise BadRequest(f"spec.{name} must be between 1 and {most}")
    if program := captures.assemble(spec.get("filter") or ()):
        query["filter"] = captures.encode(program)
    return urlencode(query)
