"""The handler of streams: checks and admits the request, sends it to the agent of the pod's node, relays
bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from alcove.api import objects
from alcove.api.errors import BadRequest, MethodNotAllowed, NotFound, TooManyRequests
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import pod_path
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.call import ApiCall
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.streams import options as streams
from alcove.apiserver.streams.agent_addresses import AgentAddress, agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of
from alcove.apiserver.streams.proxy import ApiProxy
from alcove.apiserver.streams.relays import BodyRelay, StreamRelay
from alcove.http.client import HttpClientConnection
from alcove.http.group_counts import GroupCounts
from alcove.http.messages import HttpResponse

PER_TENANT_MAX = 256
"""Streams per tenant; one more is answered with 429."""
TOTAL_MAX = 4_096
"""Streams of all tenants. A tenant may have at most as many as are still free, so that any number of busy
tenants leaves some for another; one more is answered with 429."""
RETRY_AFTER_SECONDS = 5
_TEXT = b"text/plain"
_REQUEST_HEADERS = (
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "x-stream-protocol-version",
)
_RESPONSE_HEADERS = ("upgrade", "sec-websocket-accept", "sec-websocket-protocol", "x-stream-protocol-version")
_UPGRADES = frozenset({"websocket", "spdy/3.1"})


class StreamLimits:
    """Limits of open streams, per tenant and in total: streams last for hours and hold memory on both ends."""

    def __init__(
        self,
        per_tenant_max: int = PER_TENANT_MAX,
        total_max: int = TOTAL_MAX,
        counts: GroupCounts | None = None,
    ) -> None:
        """`counts`: the streams of each tenant."""
        self._per_tenant_max = per_tenant_max
        self._total_max = total_max
        self._open = GroupCounts() if counts is None else counts
        self.total = 0

    def enter(self, tenant: TenantId) -> Callable[[], None]:
        """Counts one more stream. Call the result when the stream has ended; further calls do nothing.

        Raises TooManyRequests.
        """
        if self.total >= self._total_max:
            raise _too_many(f"this server has {self._total_max} streams open")
        count = self._open.total(tenant)
        if count >= self._per_tenant_max or self._open.own(tenant) >= self._total_max - self.total:
            raise _too_many(f'tenant "{tenant}" has {count} streams open')
        self._open.add(tenant, 1)
        self.total += 1
        uncounted = [tenant]

        def leave() -> None:
            if uncounted:
                self._leave(uncounted.pop())

        return leave

    def _leave(self, tenant: TenantId) -> None:
        self.total -= 1
        self._open.add(tenant, -1)


class StreamHandler:
    def __init__(
        self,
        services: ApiServerServices,
        authorizer: Authorizer,
        agents: AgentConnector,
        plane: str = SYSTEM,
        release: Callable[[ApiCall], None] = lambda _call: None,
        counts: GroupCounts | None = None,
    ) -> None:
        """`plane` is this server's plane as nodes name it. `release` releases a call's flow control seats. `counts`:
        the streams of each tenant."""
        self._services = services
        self._authorizer = authorizer
        self._agents = agents
        self.counting = StreamLimits(counts=counts)
        self._plane = plane
        self._proxy = ApiProxy(services, agents, plane)
        self._release = release

    async def answer(self, call: ApiCall) -> HttpResponse:
        """log, exec, attach, portforward of a pod; proxy of a pod, service or node. Raises ApiError."""
        verb = call.target.subresource
        if verb == "proxy":
            return await self._proxied(call)
        if call.request.method == "HEAD":
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        if verb != "log":
            self._check_upgrade(call)
        options = await self._admitted(call, streams.parse(verb, call.request.raw_query))
        streams.check(verb, options)
        pod = self._pod(call)
        container = "" if verb == "portforward" else streams.container_of(pod, options)
        node = objects.get(pod, "spec", "nodeName", default="")
        if not node and verb == "log":
            return HttpResponse(200, b"", _TEXT)
        if not node:
            raise BadRequest(f"pod {call.target.name} does not have a host assigned")
        address = agent_address(self._services.cache, node)
        done = self.counting.enter(call.tenant)
        try:
            return await self._open(call, address, pod, options, container, done)
        except BaseException:
            done()
            raise

    async def _proxied(self, call: ApiCall) -> HttpResponse:
        await self._admit(call, self._proxy.options(call))
        route = self._proxy.route(call)
        if isinstance(route, HttpResponse):
            return route
        done = self.counting.enter(call.tenant)
        # Waiting for the backend is no work of this server, so the call holds no seats meanwhile.
        self._release(call)
        try:
            return await self._proxy.open(call, route, done)
        except BaseException:
            done()
            raise

    def _pod(self, call: ApiCall) -> Object:
        entry = self._services.cache.entry(call.key)
        if entry is None:
            raise NotFound.of(call.kind.group_resource, call.target.name)
        return entry.decode()

    def _check_upgrade(self, call: ApiCall) -> None:
        headers = call.request.headers
        if headers.get("upgrade", "").lower() not in _UPGRADES:
            raise BadRequest("Upgrade request required")
        if call.verb == "get":
            # A WebSocket starts with a GET; the permission to get must not suffice to run commands.
            target = call.target
            access = Access(
                "create", call.tenant, target.group, target.resource, target.subresource, target.namespace, target.name
            )  # fmt: skip
            self._authorizer.require(call.identity, access)

    async def _admitted(self, call: ApiCall, options: Object) -> Object:
        """The options after admission. Raises NotFound if the pod does not exist."""
        self._pod(call)
        if call.target.subresource == "log":
            return options
        return await self._admit(call, options)

    async def _admit(self, call: ApiCall, options: Object) -> Object:
        attributes = Attributes(
            operation=Operation.CONNECT,
            kind=call.kind,
            tenant=call.tenant,
            namespace=call.namespace,
            name=call.target.name,
            subresource=call.target.subresource,
            obj=options,
            identity=call.identity,
            warnings=call.warnings,
            annotations=call.annotations,
        )
        await self._services.admission.admit(attributes)
        await self._services.admission.validate(attributes)
        return attributes.obj or {}

    async def _open(
        self,
        call: ApiCall,
        address: AgentAddress,
        pod: Object,
        options: Object,
        container: str,
        done: Callable[[], None],
    ) -> HttpResponse:
        verb = call.target.subresource
        agent = await self._agents.connect(call.identity.tenant, address)
        try:
            await self._send(agent, call, address, pod, streams.query_of(verb, options, container))
            if agent.status == 101:
                headers = [
                    (name.encode(), agent.headers[name].encode("latin-1"))
                    for name in _RESPONSE_HEADERS
                    if name in agent.headers
                ]
                return HttpResponse(
                    101, StreamRelay(agent, done), b"", [(b"Connection", b"Upgrade"), *headers]
                )
            if agent.status == 200 and verb == "log":
                return HttpResponse(200, BodyRelay(agent, done), _TEXT)
            error = await error_of(agent)
            if verb == "log" and error.code == 404:
                raise BadRequest(streams.waiting(pod, container))
            raise error
        except BaseException:
            agent.close()
            raise

    async def _send(
        self,
        agent: HttpClientConnection,
        call: ApiCall,
        address: AgentAddress,
        pod: Object,
        query: Mapping[str, list[str]],
    ) -> None:
        pod_key = (self._plane, call.tenant, call.namespace, call.target.name, pod["metadata"]["uid"])
        path = f"{pod_path(*pod_key, call.target.subresource)}?{urlencode(query, doseq=True)}"
        headers: dict[str, str] = {}
        received = call.request.headers
        # A log may be read over a WebSocket; other ways to upgrade do not apply to it and are ignored.
        upgrade = received.get("upgrade", "")
        if call.target.subresource != "log" or upgrade.lower() == "websocket":
            headers |= {"Connection": "Upgrade", "Upgrade": upgrade}
            headers |= {name: received[name] for name in _REQUEST_HEADERS if name in received}
        await ask(agent, address, call.request.method, path, headers)


def _too_many(message: str) -> TooManyRequests:
    return TooManyRequests.after(RETRY_AFTER_SECONDS, f"{message}; close some, or try again later")
