"""What answers in an API server's place while it reads its store: a million objects take a while.

Clients learn that the server is alive and when to ask again, instead of finding a closed port. Nothing else is answered: before
everything is read, nobody's rights are known. Each response ends its connection, since who the client is was not looked at.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

from alcove.api.errors import Details, ServiceUnavailable
from alcove.apiserver.responses import error_response, http_error_response
from alcove.http.accepting import listen
from alcove.http.messages import HttpRequest, HttpResponse
from alcove.http.server import HttpServer

RETRY_SECONDS = 1
MESSAGE = "the API server is starting: it reads its store; try again"
_ALIVE = frozenset(("/livez", "/healthz"))
_TEXT = b"text/plain; charset=utf-8"


class StartingServer:
    """`async with StartingServer(…)` listens and answers; `hand_over` ends that, and keeps the sockets."""

    def __init__(
        self, hosts: Sequence[str], port: int, tls: ssl.SSLContext, *, is_port_shared: bool = False
    ) -> None:
        self._hosts = hosts
        self._port = port
        self._tls = tls
        self._is_port_shared = is_port_shared
        self._listeners: list[socket.socket] = []
        self._server: HttpServer | None = None

    async def __aenter__(self) -> StartingServer:
        """Raises OSError."""
        self._listeners = await listen(self._hosts, self._port, is_port_shared=self._is_port_shared)
        self._server = HttpServer(
            answer,
            self._hosts,
            self._port,
            self._tls,
            render_error=http_error_response,
            group_of=lambda _peer: "",
            # It closes its own: connections that it has not accepted wait for its successor.
            listeners=[each.dup() for each in self._listeners],
        )
        await self._server.__aenter__()
        return self

    @property
    def port(self) -> int:
        return int(self._listeners[0].getsockname()[1])

    async def hand_over(self) -> list[socket.socket]:
        """Stops answering. Returns the sockets, which are the caller's from now on; they go on listening."""
        server, self._server = self._server, None
        if server is not None:
            await server.__aexit__()
        listeners, self._listeners = self._listeners, []
        return listeners

    async def __aexit__(self, *_exc: object) -> None:
        for listener in await self.hand_over():
            listener.close()


def answer(request: HttpRequest) -> HttpResponse:
    request.keep_alive = False
    response = _response(request.path)
    response.headers = [*(response.headers or ()), (b"Connection", b"close")]
    return response


def _response(path: str) -> HttpResponse:
    if path in _ALIVE:
        return HttpResponse(200, b"ok", _TEXT)
    if path == "/readyz":
        return HttpResponse(500, MESSAGE.encode(), _TEXT)
    return error_response(ServiceUnavailable(MESSAGE, Details(retry_after_seconds=RETRY_SECONDS)))
