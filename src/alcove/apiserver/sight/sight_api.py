"""The kinds of sight.alcove.io, none of which is stored as such."""

from __future__ import annotations

from alcove.apiserver.call import ApiCall
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.sight.captures_api import CapturesApi
from alcove.apiserver.sight.flow_watches import FlowWatches
from alcove.apiserver.sight.flows_api import FlowsApi
from alcove.apiserver.sight.traces_api import TracesApi
from alcove.apiserver.sight.usages_api import UsagesApi
from alcove.apiserver.streams.agents import AgentConnector
from alcove.apiserver.streams.connect import StreamLimits
from alcove.http.messages import HttpResponse

GROUP = "sight.alcove.io"


class SightApi:
    def __init__(
        self, services: ApiServerServices, agents: AgentConnector, plane: str, streams: StreamLimits
    ) -> None:
        """`plane` is this server's plane as nodes name it; captures and watches of flows count as `streams`."""
        self._captures = CapturesApi(services, agents, plane, streams)
        self._flows = FlowsApi(services, agents, plane)
        self._flow_watches = FlowWatches(services, agents, plane, streams)
        self._traces = TracesApi(services, agents, plane)
        self._usages = UsagesApi(services)

    async def answer(self, call: ApiCall) -> HttpResponse:
        match call.kind.resource:
            case "flows" if call.verb == "watch":
                return self._flow_watches.answer(call)
            case "flows":
                return await self._flows.answer(call)
            case "captures":
                return await self._captures.answer(call)
            case "tenantusages":
                return await self._usages.answer(call)
        return await self._traces.answer(call)
