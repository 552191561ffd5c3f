"""Forwards a request to another HTTP server, and relays the response: for aggregated APIs and for dedicated planes.

Bodies are relayed with backpressure in both directions; an upgraded connection is relayed as bytes. A request holds
no seat of flow control while it waits, but one of its tenant's slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from alcove.api.errors import ServiceUnavailable
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.call import ApiCall
from alcove.apiserver.outbound.errors import WebhookError, connection_message
from alcove.apiserver.streams import proxyheaders
from alcove.apiserver.streams.connect import StreamLimits
from alcove.apiserver.streams.proxy import BodySender
from alcove.apiserver.streams.proxy_targets import unreached
from alcove.apiserver.streams.relays import BodyBounds, BodyRelay, StreamRelay
from alcove.http.client import HttpClientConnection
from alcove.http.errors import HttpError, RequestNotSent
from alcove.http.messages import HttpRequest, HttpResponse

REQUEST_SECONDS_MAX = 60.0
"""For a whole request, as in Kubernetes; for a watch or an upgrade, until its response begins."""
WATCH_SECONDS_MAX = 4 * 3_600.0
_BODILESS = frozenset((204, 304))
_REPEATABLE = frozenset(("GET", "HEAD"))
_OCTETS = b"application/octet-stream"

HeaderField = tuple[str, str]
S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class ServerConnections(Protocol[S_contra]):
    def take_idle(self, tenant: TenantId, server: S_contra) -> HttpClientConnection | None: ...

    def put_back(self, tenant: TenantId, server: S_contra, connection: HttpClientConnection) -> None: ...

    async def open(self, tenant: TenantId, server: S_contra) -> HttpClientConnection: ...


class RequestForwarder(Generic[S]):
    def __init__(
        self,
        connections: ServerConnections[S],
        release: Callable[[ApiCall], None],
        counting: StreamLimits,
        ring0_bounds: BodyBounds,
    ) -> None:
        """`release` releases a call's flow control seats. A response to a caller of ring0 is cut off at
        `ring0_bounds`."""
        self._connections = connections
        self._release = release
        self._counting = counting
        self._ring0_bounds = ring0_bounds

    async def forward(
        self, call: ApiCall, server: S, target: str, headers: list[HeaderField]
    ) -> HttpResponse:
        """The server's response to the request, at another path and query. Raises ApiError."""
        done = self._counting.enter(call.tenant)
        self._release(call)
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                connection = await self._send(call, server, target, headers)
            return self._response(call, server, connection, done)
        except TimeoutError as error:
            done()
            raise unreached("context deadline exceeded") from error
        except BaseException:
            done()
            raise

    async def _send(
        self, call: ApiCall, server: S, target: str, headers: list[HeaderField]
    ) -> HttpClientConnection:
        """The connection on which the response's head has arrived."""
        request = call.request
        with translated():
            # A body that is passed on cannot be sent twice.
            idle = self._connections.take_idle(call.tenant, server) if request.upload is None else None
            if idle is not None:
                try:
                    return await exchange(request, idle, target, headers)
                except RequestNotSent:
                    pass
                except ConnectionError:
                    # The server has closed the idle connection; it may have read a request before that.
                    if request.method not in _REPEATABLE:
                        raise
            connection = await self._connections.open(call.tenant, server)
            return await exchange(request, connection, target, headers)

    def _response(
        self,
        call: ApiCall,
        server: S,
        connection: HttpClientConnection,
        done: Callable[[], None],
    ) -> HttpResponse:
        status, is_upgrade = connection.status, connection.status == 101
        if is_upgrade and not proxyheaders.asks_upgrade(call.request):
            connection.abort()
            raise unreached("the server switched protocols without an upgrade request")
        if _is_forbidden_redirect(call, connection):
            connection.abort()
            raise unreached("the server attempted to redirect the request, which is not permitted")
        is_foreign = call.identity.tenant != call.tenant
        headers = proxyheaders.answer_headers(connection.fields, is_upgrade, is_foreign=is_foreign)
        if is_upgrade:
            return HttpResponse(101, StreamRelay(connection, done), b"", headers)
        ended = self._deadline(call, server, connection, done)
        kind = connection.headers.get("content-type", "").encode("latin-1") or _OCTETS
        length = proxyheaders.length_of(connection.headers)
        if call.request.method == "HEAD" or status in _BODILESS:
            ended(connection)
            response = HttpResponse(status, b"", kind, headers)
            response.length = -1 if length is None else length
            return response
        # Processes of ring0 read and parse whole responses, which a tenant's server must not make arbitrarily long.
        is_bounded = call.identity.is_system and call.tenant != SYSTEM and call.verb != "watch"
        bounds = self._ring0_bounds if is_bounded else None
        response = HttpResponse(status, BodyRelay(connection, _nothing, ended, bounds), kind, headers)
        response.length = length
        return response

    def _deadline(
        self,
        call: ApiCall,
        server: S,
        connection: HttpClientConnection,
        done: Callable[[], None],
    ) -> Callable[[HttpClientConnection], None]:
        """Aborts the connection when its time is over. Call the result when the response has ended."""
        seconds = WATCH_SECONDS_MAX if call.verb == "watch" else REQUEST_SECONDS_MAX
        timer = asyncio.get_running_loop().call_later(seconds, connection.abort)
        upload = call.request.upload

        def ended(connection: HttpClientConnection) -> None:
            timer.cancel()
            if upload is not None and not upload.is_complete:
                connection.abort()  # The rest of the body would be taken for the next request.
            else:
                self._connections.put_back(call.tenant, server, connection)
            done()

        return ended


@contextmanager
def translated() -> Iterator[None]:
    """Translates what goes wrong with another server to the error that a client gets."""
    try:
        yield
    except TimeoutError as error:
        raise unreached("context deadline exceeded") from error
    except WebhookError as error:
        raise unreached(str(error)) from error
    except OSError as error:
        raise unreached(connection_message(error)) from error
    except HttpError as error:
        raise unreached(f"malformed HTTP response: {error}") from error
    except ValueError as error:  # The service's name is no valid TLS server name.
        raise ServiceUnavailable("service unavailable") from error


def _is_forbidden_redirect(call: ApiCall, connection: HttpClientConnection) -> bool:
    """A client would send the request again, with its credentials here, to a place that the other server chooses. Web
    pages behind `proxy` may redirect users of the tenant, whose server it is."""
    is_redirect = 300 <= connection.status < 400 and connection.status != 304
    is_page = call.target.subresource == "proxy" and not call.identity.is_system
    return is_redirect and not is_page


def _nothing() -> None:
    pass


async def exchange(
    request: HttpRequest, connection: HttpClientConnection, target: str, headers: list[HeaderField]
) -> HttpClientConnection:
    """Sends a request with its body, and returns the connection when the response's head has arrived."""
    connection.begin(request.method, target, headers, request.body)
    if request.upload is not None:
        BodySender(request.upload, connection)
    try:
        await connection.response()
    except BaseException:
        connection.abort()
        raise
    return connection
