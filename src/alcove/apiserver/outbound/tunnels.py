"""Connections to the backends of a tenant's services, through the agents of nodes.

A backend that is a pod is reached by the agent of its node, as for `proxy`. Any other address (an EndpointSlice
that somebody wrote) is reached from the service's network, by the agent of a node that has this network: it
leads where the tenant's own pods may connect to, and nowhere else. The agent decides that, by its own records
and not by what is asked here.

The TLS session with the webhook is end to end: agents only relay its bytes.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from urllib.parse import urlencode

from msgspec import Struct

from alcove.api import objects
from alcove.api.destinations import Address
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.node_api import TUNNEL, network_path, pod_path
from alcove.api.objects import Object
from alcove.api.resources import PODS
from alcove.apiserver.outbound.dialer import DirectDialer
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.resolver import ResolvedEndpoint, ResolvedService, ServiceBackend
from alcove.apiserver.reader import CacheReader
from alcove.apiserver.streams.agent_addresses import agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of
from alcove.http.byte_streams import ByteStream, TransportStream

ATTEMPTS_MAX = 3
"""Backends that one call tries to connect to, one after the other."""
ATTEMPT_SECONDS_MAX = 3.0
"""For each attempt but the last, which has what remains of the call's timeout."""
UNACKNOWLEDGED_SECONDS_MAX = 3
"""A node that does not acknowledge what was sent to it for this long is taken for dead."""
SILENT_SECONDS_MAX = 15
"""After which a node is probed on a connection without traffic: a watch of an aggregated API may have none for long."""
AVOIDED_SECONDS = 10.0
"""A node that could not be reached is tried last for this long."""
BACKENDS_READ_MAX = 16
"""Backends of a service among which those that are tried are chosen."""
PODS_READ_MAX = 1_000
"""Pods among which nodes that have a network are searched."""
_AGENT_PREFIX = "error trying to reach service: dial tcp :"


class TunnelRoute(Struct, frozen=True):
    node: str
    path: str
    """The path of the agent's tunnel."""
    address: Address
    """The backend's, for messages."""


class NetworkNodes(Struct, frozen=True):
    """The nodes that have a tenant's network."""

    names: tuple[str, ...]
    """In random order."""
    by_address: Mapping[str, str]
    """The nodes of its pods."""


class ServiceTunnels:
    def __init__(
        self, reader: CacheReader, agents: AgentConnector, direct: DirectDialer, plane: str = SYSTEM
    ) -> None:
        """`plane` is this server's plane as nodes name it."""
        self._reader = reader
        self._agents = agents
        self._direct = direct
        self._plane = plane
        self._avoided: dict[str, float] = {}
        """Nodes that could not be reached, until when they are tried last."""

    async def dial(self, tenant: TenantId, namespace: str, service: ResolvedService) -> ByteStream:
        """A connection to one of the service's backends. Raises WebhookError, OSError."""
        routes = self._routes(tenant, namespace, service)
        for route in routes[:-1]:
            try:
                async with asyncio.timeout(ATTEMPT_SECONDS_MAX):
                    return await self._open(tenant, route)
            except (WebhookError, OSError, TimeoutError):
                continue
        return await self._open(tenant, routes[-1])

    def _routes(
        self, tenant: TenantId, namespace: str, service: ResolvedService
    ) -> list[TunnelRoute | ResolvedEndpoint]:
        """The routes to try, at least one. Raises WebhookError."""
        nodes: NetworkNodes | None = None
        routes: list[TunnelRoute | ResolvedEndpoint] = []
        for backend in service.backends[:BACKENDS_READ_MAX]:
            if (pod := self._pod(tenant, namespace, backend)) is not None:
                routes.append(self._route_to_pod(tenant, pod, backend))
            elif self._direct.is_exempt(tenant, backend.address):
                routes.append(ResolvedEndpoint((backend.address,), backend.port))
            else:
                nodes = nodes or self._nodes(tenant, service.network)
                routes += self._routes_from_network(tenant, service.network, nodes, backend)
        if not routes:
            first = service.backends[0]
            raise WebhookError(
                f'dial tcp {_host(first.address)}:{first.port}: no node has a pod in network "{service.network}"'
            )
        return sorted(routes, key=self._is_avoided)[:ATTEMPTS_MAX]

    def _pod(self, tenant: TenantId, namespace: str, backend: ServiceBackend) -> Object | None:
        """The pod that the endpoint refers to, if it is on a node and has this address."""
        pod = self._reader.get(tenant, PODS, namespace, backend.pod) if backend.pod else None
        if pod is None or backend.pod_uid not in ("", pod["metadata"]["uid"]):
            return None
        return pod if _node(pod) and str(backend.address) in _addresses(pod) else None

    def _route_to_pod(self, tenant: TenantId, pod: Object, backend: ServiceBackend) -> TunnelRoute:
        metadata = pod["metadata"]
        key = (self._plane, tenant, metadata["namespace"], metadata["name"], metadata["uid"])
        path = f"{pod_path(*key, 'proxy')}?{urlencode({'port': backend.port})}"
        return TunnelRoute(_node(pod), path, backend.address)

    def _routes_from_network(
        self, tenant: TenantId, network: str, nodes: NetworkNodes, backend: ServiceBackend
    ) -> Iterator[TunnelRoute]:
        query = urlencode({"address": str(backend.address), "port": backend.port})
        path = f"{network_path(self._plane, tenant, network)}?{query}"
        own = nodes.by_address.get(str(backend.address))
        for node in (own,) if own else nodes.names[:ATTEMPTS_MAX]:
            yield TunnelRoute(node, path, backend.address)

    def _nodes(self, tenant: TenantId, network: str) -> NetworkNodes:
        """Nodes that have a running pod in the network."""
        names: dict[str, None] = {}
        by_address: dict[str, str] = {}
        for pod in islice(self._reader.list(tenant, PODS), PODS_READ_MAX):
            node, is_running = _node(pod), objects.get(pod, "status", "phase") == "Running"
            if node and is_running and network_of(pod) == network:
                names[node] = None
                by_address |= dict.fromkeys(_addresses(pod), node)
        return NetworkNodes(tuple(random.sample(list(names), len(names))), by_address)

    def _is_avoided(self, route: TunnelRoute | ResolvedEndpoint) -> bool:
        if isinstance(route, ResolvedEndpoint):
            return False
        return self._avoided.get(route.node, 0.0) > asyncio.get_running_loop().time()

    def _avoid(self, node: str) -> None:
        now = asyncio.get_running_loop().time()
        self._avoided = {each: until for each, until in self._avoided.items() if until > now}
        self._avoided[node] = now + AVOIDED_SECONDS

    async def _open(self, tenant: TenantId, route: TunnelRoute | ResolvedEndpoint) -> ByteStream:
        if isinstance(route, ResolvedEndpoint):
            return await self._direct.dial(tenant, route)
        try:
            return await self._open_tunnel(tenant, route)
        except ApiError as error:
            raise WebhookError(_message(str(error), route.address)) from error

    async def _open_tunnel(self, tenant: TenantId, route: TunnelRoute) -> ByteStream:
        """Raises ApiError."""
        address = agent_address(self._reader, route.node)
        try:
            agent = await self._agents.connect(tenant, address)
        except (ApiError, asyncio.CancelledError):
            # Cancelled: the attempt has timed out.
            self._avoid(route.node)
            raise
        try:
            _notice_death(agent.transport.get_extra_info("socket"))
            await ask(agent, address, "GET", route.path, {"Connection": "Upgrade", "Upgrade": TUNNEL})
            if agent.status != 101:
                raise await error_of(agent)
        except BaseException:
            agent.abort()
            raise
        stream = TransportStream()
        agent.hand_over(stream)
        return stream


def _notice_death(sock: socket.socket) -> None:
    """Ends the connection if the node does not acknowledge data, or, while there is none, a probe for its life."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_SECONDS_MAX * 1000)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_SECONDS_MAX)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, UNACKNOWLEDGED_SECONDS_MAX)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _message(text: str, address: Address) -> str:
    """The agent's message with the address, which it does not tell."""
    if text.startswith(_AGENT_PREFIX):
        return f"dial tcp {_host(address)}:{text.removeprefix(_AGENT_PREFIX)}"
    return text


def _host(address: Address) -> str:
    return f"[{address}]" if address.version == 6 else str(address)


def _addresses(pod: Object) -> Iterable[str]:
    status = pod.get("status") or {}
    return (status.get("podIP", ""), *(each.get("ip", "") for each in status.get("podIPs") or ()))


def _node(pod: Object) -> str:
    return str(objects.get(pod, "spec", "nodeName", default=""))
