"""The agent's HTTPS server: authorizes the caller, finds the pod and dispatches the request."""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from alcove.agent.network.flow_reports import FlowSelection
from alcove.agent.network.network_dialer import connect_node
from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerPhase, NoSuchContainer, RuntimeFailure
from alcove.agent.server import (
    attach,
    capture,
    channels,
    flow_stream,
    forward,
    kubelet_paths,
    logs,
    traces,
    tunnel,
)
from alcove.agent.server import exec as execution
from alcove.agent.server.attach import Attachable
from alcove.agent.server.callers import AuthorizedCallers
from alcove.agent.server.capture import CapturePlace
from alcove.agent.server.channels import RequestedStreams
from alcove.agent.server.flow_stream import FollowFlows
from alcove.agent.server.node_api import NodeApi
from alcove.agent.server.requests import NodeRequest, read_request, refuse
from alcove.agent.server.running_containers import ContainerHandle, PodHandle, RunningContainers
from alcove.agent.server.stream_slots import StreamSlots
from alcove.agent.server.traces import TracedPacket
from alcove.agent.server.usage import UsageMeter
from alcove.api import destinations
from alcove.api.destinations import Address
from alcove.api.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    InternalError,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
)
from alcove.api.ids import TenantId
from alcove.api.node_api import POD_VERBS, PORT, KernelTrace, NameAnswer, NodeFlows
from alcove.client.keys import HOME, PlaneId, TenantKey
from alcove.component import request_ids
from alcove.component.tasks import BackgroundTasks, spawn, stop
from alcove.http.closing import is_established
from alcove.http.connections import ConnectionSlot, ConnectionTable
from alcove.http.limits import LIMITS, READ_BYTES, HttpLimits
from alcove.http.streams import HttpServerStream

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 1_024
TENANT_CONNECTIONS_MAX = 256
"""Connections for pods and networks of one tenant, but not more than are free."""
_RING0 = "ring0"
WATCH_SECONDS = 15.0
CLOSE_SECONDS_MAX = 5.0
FLOWS_DEFAULT = 1_000

ReadFlows = Callable[[PlaneId, TenantId | None, FlowSelection], Awaitable[NodeFlows]]
"""Plane, tenant (None for all) and which of its flows."""
FindCapture = Callable[[PodKey], CapturePlace]
"""Where a pod's packets are read. Raises NotFound."""
TracePacket = Callable[[TracedPacket], Awaitable[KernelTrace]]
LookUpName = Callable[[PodKey, str], Awaitable[NameAnswer]]
"""As a pod would do it. Raises BadRequest, NotFound."""
DialNetwork = Callable[[TenantKey, str, Address, int], Awaitable[socket.socket]]
"""Tenant, network, address and port."""


class AgentServer:
    """`async with AgentServer(…)` listens; leaving the block closes all connections."""

    def __init__(
        self,
        pods: RunningContainers,
        callers: AuthorizedCallers,
        host: str = "0.0.0.0",
        port: int = PORT,
        meter: UsageMeter | None = None,
        node: str = "",
        metrics: Callable[[], bytes] = bytes,
        dial_network: DialNetwork | None = None,
        flows: ReadFlows | None = None,
        follow_flows: FollowFlows | None = None,
        trace: TracePacket | None = None,
        look_up: LookUpName | None = None,
        find_capture: FindCapture | None = None,
    ) -> None:
        """`dial_network` connects from a tenant's network, `flows` and `follow_flows` read its flows, `trace` tries a packet of a pod,
        `look_up` a name, and `find_capture` finds its interface; None if the node has no networks."""
        self._pods = pods
        self._callers = callers
        self._host, self._port = host, port
        self._meter = meter or UsageMeter(pods)
        self._node_api = NodeApi(node, pods, self._meter, metrics)
        self._dial_network = dial_network
        self._flows = flows
        self._follow_flows = follow_flows
        self._trace = trace
        self._look_up = look_up
        self._find_capture = find_capture
        self._captures = StreamSlots(capture.CAPTURES_MAX, "captures")
        self._flow_streams = StreamSlots(flow_stream.STREAMS_MAX, "streams of flows")
        self._connections: dict[asyncio.Task[None], StreamWriter] = {}
        bounds = HttpLimits(connections_max=CONNECTIONS_MAX, connections_per_group_max=TENANT_CONNECTIONS_MAX)
        self._table = ConnectionTable(bounds, _RING0)
        """By tenant, once the request is read."""
        self._listener: asyncio.Server | None = None
        self._background = BackgroundTasks()

    async def __aenter__(self) -> AgentServer:
        self._listener = await asyncio.start_server(
            self._accept, self._host, self._port,
            ssl=self._callers.context, ssl_handshake_timeout=LIMITS.handshake_seconds_max,
            limit=READ_BYTES, reuse_address=True,
        )  # fmt: skip
        await self._background.__aenter__()
        self._background.restart("closed connections", self._cancel_disconnected)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        self._background.cancel()
        await self._background.__aexit__(None, None, None)
        await stop(*self._connections)

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def _cancel_disconnected(self) -> None:
        """Cancels requests whose client has disconnected, also while nothing is being read from it."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for task, writer in list(self._connections.items()):
                if not is_established(writer.get_extra_info("socket")):
                    task.cancel()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        address, *_ = writer.get_extra_info("peername") or ("",)
        slot = self._table.open(address, asyncio.get_running_loop().time())
        if slot is None:
            writer.transport.abort()
            return
        stream = HttpServerStream(reader, writer)
        task = spawn("connection", self._serve_connection(stream, writer, slot))
        self._connections[task] = writer
        slot.close = partial(_cancel, task)
        task.add_done_callback(partial(self._closed, slot))

    def _closed(self, slot: ConnectionSlot, task: asyncio.Task[None]) -> None:
        self._table.closed(slot)
        # A task that was cancelled before it began has closed nothing.
        self._connections.pop(task).transport.abort()

    async def _serve_connection(
        self, connection: HttpServerStream, writer: StreamWriter, slot: ConnectionSlot
    ) -> None:
        try:
            await self._serve(connection, writer, slot)
        except ApiError as error:
            if not connection.is_answered:
                with suppress(ConnectionError):
                    await refuse(connection, error)
        except (ConnectionError, EOFError, TimeoutError):
            pass  # The client disconnected, or did not send a complete request in time.
        except Exception:
            log.exception("failed to serve request")
            if not connection.is_answered:
                with suppress(ConnectionError):
                    await refuse(connection, InternalError("internal error in the node agent; see its log"))
        finally:
            await _close(writer)

    async def _serve(self, connection: HttpServerStream, writer: StreamWriter, slot: ConnectionSlot) -> None:
        tls = writer.get_extra_info("ssl_object")
        plane = self._callers.plane_of(tls.getpeercert(binary_form=True))
        request = await read_request(connection)
        # A context variable of this connection's task, which serves this request only.
        request_ids.current.set(request_ids.from_headers(request.headers))
        log.debug("serving request", extra={"method": request.method, "path": "/".join(request.path)})
        if not slot.claim(_group_of(plane, request)):
            raise ServiceUnavailable("too many open connections to the node; close some or retry later")
        if self._callers.is_foreign(plane):
            await self._serve_as_kubelet(connection, request, plane)
            return
        match request.path:
            case ("healthz",):
                await connection.respond(200, b"ok", "text/plain")
            case ("usage",):
                summary = await self._meter.summary(plane)
                await connection.respond(200, msgspec.json.encode(summary))
            case ("flows", flows_plane, *tenant) if len(tenant) <= 1:
                if flows_plane != plane:
                    raise Forbidden("an API server may only access networks of its own plane")
                await self._serve_flows(connection, request, plane, TenantId(tenant[0]) if tenant else None)
            case ("node" | "nodeport", *path):
                if plane != HOME:
                    raise Forbidden("only ring0 may access nodes")
                await self._serve_node(connection, request, path)
            case ("networks", network_plane, tenant, network):
                if network_plane != plane:
                    raise Forbidden("an API server may only access networks of its own plane")
                await self._serve_network(connection, request, TenantKey(plane, TenantId(tenant)), network)
            case ("pods", pod_plane, tenant, namespace, name, uid, "trace" | "lookup" | "capture" as verb):
                if pod_plane != plane:
                    raise Forbidden("an API server may only access pods of its own plane")
                serve = {
                    "trace": self._serve_trace,
                    "lookup": self._serve_lookup,
                    "capture": self._serve_capture,
                }[verb]
                pod = self._find_pod(plane, TenantId(tenant), namespace, name, uid)
                await serve(connection, request, pod.key)
            case ("pods", pod_plane, tenant, namespace, name, uid, verb) if verb in POD_VERBS:
                if pod_plane != plane:
                    raise Forbidden("an API server may only access pods of its own plane")
                pod = self._find_pod(plane, TenantId(tenant), namespace, name, uid)
                await self._serve_pod(connection, request, pod, verb)
            case _:
                raise NotFound.path()

    async def _serve_as_kubelet(
        self, connection: HttpServerStream, request: NodeRequest, plane: PlaneId
    ) -> None:
        """Serves a foreign plane's API server. All its pods are of the tenant with its name."""
        asked = kubelet_paths.parsed(request)
        if asked is None:
            raise NotFound.path()
        pod = self._pods.find(plane, TenantId(plane), asked.namespace, asked.pod)
        if pod is None or asked.uid not in ("", pod.key.uid):
            raise NotFound(f'pod "{asked.pod}" not found on this node')
        await self._serve_pod(connection, asked.request, pod, asked.verb)

    async def _serve_node(
        self, connection: HttpServerStream, request: NodeRequest, path: Sequence[str]
    ) -> None:
        if request.path == ("nodeport",):
            await tunnel.serve(connection, request, partial(connect_node, self._host))
            return
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("the node agent only supports GET")
        response = await self._node_api.respond(path)
        await connection.respond(200, response.body, response.content_type)

    async def _serve_flows(
        self, connection: HttpServerStream, request: NodeRequest, plane: PlaneId, tenant: TenantId | None
    ) -> None:
        if self._flows is None or self._follow_flows is None:
            raise ServiceUnavailable("this node has no networks")
        selection = flow_selection(request)
        if not request.flag("follow"):
            found = await self._flows(plane, tenant, selection)
            await connection.respond(200, msgspec.json.encode(found))
            return
        owner = f"{plane}/{tenant or _RING0}" if plane == HOME else plane
        await self._flow_streams.enter(owner)
        try:
            follower = self._follow_flows(plane, tenant, selection)
            await flow_stream.serve(connection, follower, selection.limit)
        finally:
            self._flow_streams.leave(owner)

    async def _serve_trace(self, connection: HttpServerStream, request: NodeRequest, key: PodKey) -> None:
        packet = traces.parse(request, key)
        if self._trace is None:
            raise ServiceUnavailable("this node has no networks")
        traced = await self._trace(packet)
        await connection.respond(200, msgspec.json.encode(traced))

    async def _serve_lookup(self, connection: HttpServerStream, request: NodeRequest, key: PodKey) -> None:
        if self._look_up is None:
            raise ServiceUnavailable("this node has no networks")
        answer = await self._look_up(key, request.first("name"))
        await connection.respond(200, msgspec.json.encode(answer))

    async def _serve_capture(self, connection: HttpServerStream, request: NodeRequest, key: PodKey) -> None:
        if self._find_capture is None:
            raise ServiceUnavailable("this node has no networks")
        place, owner = self._find_capture(key), f"{key.plane}/{key.tenant}"
        await self._captures.enter(owner)
        try:
            await capture.serve(connection, request, place)
        finally:
            self._captures.leave(owner)

    async def _serve_network(
        self, connection: HttpServerStream, request: NodeRequest, tenant_key: TenantKey, network: str
    ) -> None:
        address = destinations.parse(request.first("address"))
        if address is None:
            raise BadRequest("query parameter address must be an IP address")
        if self._dial_network is None:
            raise ServiceUnavailable("this node has no networks")
        await tunnel.serve(connection, request, partial(self._dial_network, tenant_key, network, address))

    def _find_pod(self, plane: PlaneId, tenant: TenantId, namespace: str, name: str, uid: str) -> PodHandle:
        pod = self._pods.find(plane, tenant, namespace, name)
        if pod is None or pod.key.uid != uid:
            raise NotFound(f'pod "{name}" not found on this node')
        return pod

    async def _serve_pod(
        self, connection: HttpServerStream, request: NodeRequest, pod: PodHandle, verb: str
    ) -> None:
        name = request.first("container")
        match verb:
            case "log":
                await logs.serve(connection, request, pod, name)
            case "portforward":
                await forward.serve(connection, request, pod)
            case "proxy":
                await tunnel.serve(connection, request, pod.reach)
            case "exec":
                await _exec(connection, request, pod, name)
            case _:
                await _attach(connection, request, pod, name)


def _group_of(plane: PlaneId, request: NodeRequest) -> str:
    """Whose connection it is: the tenant's of the pod or network, or ring0's. That of a dedicated plane is the plane's, since
    its API server may name any tenants."""
    if plane != HOME:
        return f"{plane}/"  # No plane can be called like ring0's group.
    match request.path:
        case ("pods" | "networks" | "flows", _, tenant, *_):
            return f"{plane}/{tenant}"
        case _:
            return _RING0


def flow_selection(request: NodeRequest) -> FlowSelection:
    """Raises BadRequest."""
    try:
        since = float(request.first("since", "0"))
    except ValueError as error:
        raise BadRequest("query parameter since must be a number of epoch seconds") from error
    verdict, namespace, pod = (request.first(name) for name in ("verdict", "namespace", "pod"))
    return FlowSelection(since, verdict, namespace, pod, request.number("limit") or FLOWS_DEFAULT)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _exec(connection: HttpServerStream, request: NodeRequest, pod: PodHandle, name: str) -> None:
    command, requested = request.query.get("command", []), RequestedStreams.from_request(request)
    if not command:
        raise BadRequest("you must specify at least 1 argument for the command")
    container = await _running_container(pod, name)
    async with channels.opened(connection, request, requested) as client:
        await client.during(execution.run(pod.runtime, container.id, command, requested, client.channels))


async def _attach(connection: HttpServerStream, request: NodeRequest, pod: PodHandle, name: str) -> None:
    requested = RequestedStreams.from_request(request)
    container = await _running_container(pod, name)
    runtime = pod.runtime
    if not isinstance(runtime, Attachable):
        raise BadRequest(f"attach is not supported by the runtime handler {runtime.handler}")
    try:
        stream = runtime.attach(container.id)
    except RuntimeFailure as error:
        raise _not_running(name) from error
    with stream:
        async with channels.opened(connection, request, requested) as client:
            await client.during(attach.run(runtime, container.id, stream, requested, client.channels))


async def _running_container(pod: PodHandle, name: str) -> ContainerHandle:
    container = pod.containers.get(name)
    if container is None:
        raise _not_running(name)
    try:
        status = await pod.runtime.status(container.id)
    except NoSuchContainer as error:
        raise _not_running(name) from error
    if status.phase is not ContainerPhase.RUNNING:
        raise _not_running(name)
    return container


def _not_running(name: str) -> InternalError:
    return InternalError(f'unable to upgrade connection: container not found ("{name}")')


async def _close(writer: StreamWriter) -> None:
    """Closes the connection; unsent data is dropped after CLOSE_SECONDS_MAX."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
