"""Proxied requests: HTTP to a port of a pod, of a ready pod behind a service, or to a node.

The agent of the pod's node opens a tunnel to the port, as for other streams, and this server sends HTTP over
it. The server never dials an address that a tenant wrote into an object. Each connection serves one request;
bodies are relayed with backpressure in both directions, and an upgraded connection is relayed as bytes. Links in
HTML pages are rewritten, beside the event loop if the page is not small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import BadRequest, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.node_api import NODE_PATH, NODE_PORT_PATH, TUNNEL, pod_path
from alcove.api.objects import Object
from alcove.api.resources import ENDPOINTS, NODES, PODS, SERVICES
from alcove.apiserver.call import ApiCall
from alcove.apiserver.reader import CacheReader
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.streams import links, proxy_targets, proxyheaders
from alcove.apiserver.streams.agent_addresses import AgentAddress, agent_address
from alcove.apiserver.streams.agents import AgentConnector, ask, error_of
from alcove.apiserver.streams.links import PAGE_BYTES_MAX, rewrite_page
from alcove.apiserver.streams.pages import PageBody
from alcove.apiserver.streams.proxy_targets import ProxyName, ProxyPath, unreached
from alcove.apiserver.streams.relays import BodyRelay, StreamRelay
from alcove.http.client import HttpClientConnection
from alcove.http.errors import HttpError
from alcove.http.messages import HttpResponse
from alcove.http.upload import RequestUpload
from alcove.http.writing import LAST_CHUNK, chunk

ANSWER_SECONDS_MAX = 3_600.0
"""Timeout for the head of a backend's response; it is long because a backend may answer long polls."""
_BODILESS = frozenset((204, 304))
_OCTETS = b"application/octet-stream"


class ProxyRoute(Struct, frozen=True):
    """The route to a backend."""

    address: AgentAddress
    tunnel: str
    """The path of the agent's tunnel; empty if the agent is the backend itself."""
    path: str
    """The path and query of the request to the backend."""


class ApiProxy:
    def __init__(self, services: ApiServerServices, agents: AgentConnector, plane: str = SYSTEM) -> None:
        self._services = services
        self._reader: CacheReader = services.cache
        self._agents = agents
        self._plane = plane

    def options(self, call: ApiCall) -> Object:
        """The options object for admission."""
        path = _path(call)
        return {"kind": f"{call.kind.kind}ProxyOptions", "apiVersion": "v1", "path": path.rest}

    def route(self, call: ApiCall) -> ProxyRoute | HttpResponse:
        """The route of the request, or a redirect that needs no backend. Raises ApiError."""
        path = _path(call)
        if not path.rest and call.request.method in ("GET", "HEAD"):
            # With the slash, relative links of the backend's page stay below the proxied path.
            query = f"?{call.request.raw_query}" if call.request.raw_query else ""
            return HttpResponse(301, b"", b"text/html", [(b"Location", f"proxy/{query}".encode("latin-1"))])
        match call.kind.resource:
            case "pods":
                return self._to_pod(call, path)
            case "services":
                return self._to_service(call, path)
            case _:
                return self._to_node(call, path)

    def _to_pod(self, call: ApiCall, path: ProxyPath) -> ProxyRoute:
        proxy_name = proxy_targets.split(call.target.name, "pod")
        pod = self._reader.get(call.tenant, PODS, call.namespace, proxy_name.name)
        if pod is None:
            raise NotFound.of(PODS, proxy_name.name)
        return self._pod_route(call, path, proxy_name, pod, proxy_targets.pod_port(pod, proxy_name))

    def _to_service(self, call: ApiCall, path: ProxyPath) -> ProxyRoute:
        proxy_name = proxy_targets.split(call.target.name, "service")

        def pod_named(name: str, uid: str) -> Object | None:
            pod = self._reader.get(call.tenant, PODS, call.namespace, name)
            return pod if pod is not None and uid in ("", pod["metadata"]["uid"]) else None

        service_key = (call.namespace, proxy_name.name)
        backend = proxy_targets.backend_of(
            proxy_name,
            self._reader.get(call.tenant, SERVICES, *service_key),
            self._reader.get(call.tenant, ENDPOINTS, *service_key),
            pod_named,
        )
        return self._pod_route(call, path, proxy_name, backend.pod, backend.port)

    def _pod_route(
        self, call: ApiCall, path: ProxyPath, proxy_name: ProxyName, pod: Object, port: int
    ) -> ProxyRoute:
        node = objects.get(pod, "spec", "nodeName", default="")
        if not node:
            raise BadRequest(f"pod {objects.name(pod)} does not have a host assigned")
        metadata = pod["metadata"]
        pod_key = (self._plane, call.tenant, call.namespace, metadata["name"], metadata["uid"])
        query = urlencode({"port": port, "scheme": proxy_name.scheme})
        return ProxyRoute(
            agent_address(self._reader, node), f"{pod_path(*pod_key, 'proxy')}?{query}", _target(call, path)
        )

    def _to_node(self, call: ApiCall, path: ProxyPath) -> ProxyRoute:
        """The agent itself if no port or the agent's port is named; else a tunnel to that port of the
        node."""
        proxy_name = proxy_targets.split(call.target.name, "node")
        if self._reader.get(SYSTEM, NODES, "", proxy_name.name) is None:
            raise NotFound.of(NODES, proxy_name.name)
        address = agent_address(self._reader, proxy_name.name)
        if not proxy_name.port or proxy_name.port == str(address.port):
            return ProxyRoute(address, "", f"{NODE_PATH}{_target(call, path)}")
        query = urlencode({"port": proxy_targets.port_of(proxy_name.port), "scheme": proxy_name.scheme})
        return ProxyRoute(address, f"{NODE_PORT_PATH}?{query}", _target(call, path))

    async def open(self, call: ApiCall, route: ProxyRoute, done: Callable[[], None]) -> HttpResponse:
        """Sends the request; returns when the response's head has arrived.

        `done` is called once, when the response is complete. Raises ApiError.
        """
        agent = await self._agents.connect(call.identity.tenant, route.address)
        try:
            backend = await self._tunnel(agent, route)
            await self._send_request(call, route, backend)
            response = _response(call, backend, done)
            if _has_links(call, backend):
                response = await self._page(call, backend, response, done)
            return response
        except BaseException:
            agent.close()
            raise

    async def _page(
        self, call: ApiCall, backend: HttpClientConnection, response: HttpResponse, done: Callable[[], None]
    ) -> HttpResponse:
        """The response with rewritten links; a page that is too long is relayed as it is. Raises ApiError."""
        body, buffers = PageBody(backend, PAGE_BYTES_MAX), self._services.hub.buffers
        buffers.reserve(call.tenant, PAGE_BYTES_MAX)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                is_whole = await body.collect()
            if not is_whole:
                response.body = body.relay(done)
                return response
            encoding = backend.headers.get("content-encoding", "").strip().lower()
            rewrite = partial(
                rewrite_page, bytes(body.data), encoding, _path(call), call.request.headers.get("host", "")
            )
            response.body = await self._services.threads.for_size(call.tenant, len(body.data), rewrite)
            response.length = None
        except ConnectionError as error:
            raise unreached("unexpected EOF") from error
        except TimeoutError as error:
            raise unreached("i/o timeout") from error
        finally:
            buffers.release(call.tenant, PAGE_BYTES_MAX)
        backend.close()
        done()
        return response

    async def _tunnel(self, agent: HttpClientConnection, route: ProxyRoute) -> HttpClientConnection:
        if not route.tunnel:
            return agent
        await ask(agent, route.address, "GET", route.tunnel, {"Connection": "Upgrade", "Upgrade": TUNNEL})
        if agent.status != 101:
            raise await error_of(agent)
        return agent.tunnelled()

    async def _send_request(self, call: ApiCall, route: ProxyRoute, backend: HttpClientConnection) -> None:
        request = call.request
        headers = proxyheaders.request_headers(request, _path(call))
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                backend.begin(request.method, route.path, headers, request.body)
                if request.upload is not None:
                    BodySender(request.upload, backend)
                await backend.response()
        except (ConnectionError, HttpError) as error:
            raise unreached("EOF") from error
        except TimeoutError as error:
            raise unreached("i/o timeout") from error


class BodySender:
    """Forwards a request's body to the backend, with the framing that its head announced. An
    `UploadReceiver`."""

    def __init__(self, upload: RequestUpload, backend: HttpClientConnection) -> None:
        self._is_chunked = upload.length is None
        self._backend = backend
        backend.upload = upload
        upload.follow(self)

    def take(self, data: bytes) -> None:
        if data:
            self._write(chunk(data) if self._is_chunked else data)

    def ended(self) -> None:
        if self._is_chunked:
            self._write(LAST_CHUNK)

    def _write(self, data: bytes) -> None:
        transport = self._backend.transport
        if not transport.is_closing():  # A backend may respond and close before it has read the body.
            transport.write(data)


def _path(call: ApiCall) -> ProxyPath:
    path = proxy_targets.path_of(call.request.path)
    if path is None:
        raise BadRequest("the path before the proxied path must not be percent-encoded")
    return path


def _target(call: ApiCall, path: ProxyPath) -> str:
    query = call.request.raw_query
    return (path.rest or "/") + (f"?{query}" if query else "")


def _has_links(call: ApiCall, backend: HttpClientConnection) -> bool:
    """Whether the response is a page whose links are rewritten; of a redirect, only its Location is."""
    has_body = call.request.method != "HEAD" and backend.status not in (101, *_BODILESS)
    length = proxyheaders.length_of(backend.headers)
    is_short = length is None or length <= PAGE_BYTES_MAX
    is_page = links.is_page(backend.headers.get("content-type", ""))
    return has_body and is_short and is_page and "location" not in backend.headers


def _response(call: ApiCall, backend: HttpClientConnection, done: Callable[[], None]) -> HttpResponse:
    is_upgrade = backend.status == 101
    if is_upgrade and not proxyheaders.asks_upgrade(call.request):
        raise unreached("the backend switched protocols without an upgrade request")
    relocate = partial(proxyheaders.relocated, path=_path(call), host=call.request.headers.get("host", ""))
    is_foreign = call.identity.tenant != call.tenant
    headers = proxyheaders.answer_headers(backend.fields, is_upgrade, relocate, is_foreign=is_foreign)
    if is_upgrade:
        return HttpResponse(101, StreamRelay(backend, done), b"", headers)
    kind = backend.headers.get("content-type", "").encode("latin-1") or _OCTETS
    length = proxyheaders.length_of(backend.headers)
    if call.request.method == "HEAD" or backend.status in _BODILESS:
        backend.close()
        done()
        response = HttpResponse(backend.status, b"", kind, headers)
        response.length = -1 if length is None else length
        return response
    response = HttpResponse(backend.status, BodyRelay(backend, done), kind, headers)
    response.length = length
    return response
