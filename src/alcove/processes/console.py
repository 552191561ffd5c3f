"""`alcove console`: the console on this machine, which signs in with a kubeconfig.

It listens on 127.0.0.1 only. The link that it prints has a code that works once: the browser gets a cookie for it. With
the cookie, requests of the console's pages are passed on to the API server with the kubeconfig's credential, which never
reaches the browser. A request whose Host is another name is refused: a site cannot make its own name mean this machine.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from alcove.apiserver.console.gate import NOT_PROXIED, is_proxied
from alcove.apiserver.forwarding import exchange
from alcove.apiserver.streams import proxyheaders
from alcove.apiserver.streams.relays import BodyRelay, StreamRelay
from alcove.client.kubeconfig import KubeconfigUser
from alcove.console import origins
from alcove.console.files import API, ROOT, SECURITY_HEADERS, SESSION, ConsoleFiles, plain
from alcove.http.client import HttpClientConnection
from alcove.http.errors import HttpError, RequestNotSent
from alcove.http.messages import HttpRequest, HttpResponse
from alcove.http.pool import IdleConnections, PoolLimits
from alcove.http.server import HttpServer

HOST = "127.0.0.1"
OPEN = "/console/open"
CONNECT_SECONDS_MAX = 10.0
RESPONSE_SECONDS_MAX = 60.0
"""Until the response begins; a watch may then last for hours."""
_POOL = PoolLimits(per_target_max=8, total_max=8, idle_seconds_max=30.0)
_NOT_SENT = frozenset(("cookie", "origin", "referer", "host", "x-alcove-console"))
_BODILESS = frozenset((204, 304))

Answer = HttpResponse | Coroutine[Any, Any, HttpResponse]


class RunningConsole(Struct, frozen=True):
    url: str
    """What the browser is to open; it works once."""
    ended: asyncio.Event
    """Set when the user has signed out."""


@asynccontextmanager
async def serve(user: KubeconfigUser, port: int = 0) -> AsyncIterator[RunningConsole]:
    """Serves for the duration of the block. Raises OSError if the port is taken."""
    console = LocalConsole(ApiForwarder(user))
    async with HttpServer(console.handle, HOST, port) as server:
        console.hosts = frozenset((f"{HOST}:{server.port}", f"localhost:{server.port}"))
        url = f"http://{HOST}:{server.port}{OPEN}?code={console.code}"
        try:
            yield RunningConsole(url, console.ended)
        finally:
            console.close()


class LocalConsole:
    def __init__(self, api: ApiForwarder) -> None:
        self.hosts: frozenset[str] = frozenset()
        self.code = secrets.token_urlsafe(24)
        self.ended = asyncio.Event()
        self._api = api
        self._files = ConsoleFiles()
        self._cookie = f"alcove-console-{secrets.token_hex(4)}"
        """Cookies are shared by all ports of this machine: two consoles must not overwrite each other's."""
        self._secret = secrets.token_urlsafe(32)
        self._is_code_used = False

    def close(self) -> None:
        self._api.close()

    def handle(self, request: HttpRequest) -> Answer:
        if request.headers.get("host", "").lower() not in self.hosts:
            return plain(421, "this console is served on 127.0.0.1 only")
        path = request.path
        if path == OPEN:
            return self._open(request)
        if path.startswith(f"{API}/"):
            return self._refused(request) or self._call(request, path.removeprefix(API))
        if path == SESSION:
            return self._session(request)
        if path.startswith(ROOT):
            return self._files.answer(request)
        return _redirect(ROOT) if path in ("/", ROOT.rstrip("/")) else plain(404, "there is no such page")

    def _open(self, request: HttpRequest) -> HttpResponse:
        """Exchanges the code of the link for the cookie."""
        try:
            code = request.query().get("code", "")
        except HttpError as error:
            return plain(400, str(error))
        is_right = hmac.compare_digest(code.encode(), self.code.encode())
        if request.method != "GET" or self._is_code_used or not is_right:
            return plain(
                403, "this link was used before, or is of another console: run `alcove console` again"
            )
        self._is_code_used = True
        cookie = f"{self._cookie}={self._secret}; Path={ROOT}; HttpOnly; SameSite=Strict"
        return _redirect(ROOT, (b"Set-Cookie", cookie.encode()))

    def _refused(self, request: HttpRequest) -> HttpResponse | None:
        if reason := origins.refusal(request, "http"):
            return _status(403, "Forbidden", reason)
        given = origins.cookie(request, self._cookie)
        if self.ended.is_set() or not hmac.compare_digest(given.encode(), self._secret.encode()):
            return _status(401, "Unauthorized", "open the link that `alcove console` has printed")
        return None

    def _call(self, request: HttpRequest, path: str) -> Answer:
        if is_proxied(path):
            return _status(403, "Forbidden", NOT_PROXIED)
        return self._api.forward(request, path)

    def _session(self, request: HttpRequest) -> HttpResponse:
        refused = self._refused(request)
        if request.method == "GET":
            told = {"signIn": "command", "isSignedIn": refused is None}
            return _json(200, told if refused else {**told, "server": self._api.server})
        if refused is not None:
            return refused
        if request.method == "DELETE":
            self.ended.set()
            return _json(200, {})
        return _status(405, "MethodNotAllowed", "this console signs in with a kubeconfig")


class ApiForwarder:
    """Passes requests on to the API server as the kubeconfig's user."""

    def __init__(self, user: KubeconfigUser) -> None:
        self.server = user.server
        url = urlsplit(user.server)
        self._host, self._port = url.hostname or "", url.port or 443
        self._tls = user.tls()
        self._own = [("Host", url.netloc)]
        if user.token:
            self._own.append(("Authorization", f"Bearer {user.token}"))
        self._idle: IdleConnections[None, HttpClientConnection] = IdleConnections(_POOL)

    def close(self) -> None:
        self._idle.close()

    async def forward(self, request: HttpRequest, path: str) -> HttpResponse:
        """The API server's response to the request at another path."""
        target = f"{path}?{request.raw_query}" if request.raw_query else path
        headers = proxyheaders.forwarded_headers(request)
        # Another backend gets none of these; this is the user's own server, and asks whether the user may.
        headers |= {
            name: request.headers[name] for name in request.headers if name.startswith("impersonate-")
        }
        fields = [*self._own, *((name, headers[name]) for name in headers if name not in _NOT_SENT)]
        try:
            async with asyncio.timeout(RESPONSE_SECONDS_MAX):
                connection = await self._send(request, target, fields)
        except TimeoutError:
            return _status(504, "Timeout", "the API server did not answer in time")
        except (OSError, HttpError) as error:
            return _status(502, "ServiceUnavailable", f"the API server cannot be reached: {error}")
        return self._response(request, connection)

    async def _send(
        self, request: HttpRequest, target: str, fields: list[tuple[str, str]]
    ) -> HttpClientConnection:
        idle = self._idle.take(None) if request.upload is None else None
        if idle is not None:
            try:
                return await exchange(request, idle, target, fields)
            except RequestNotSent:
                pass
            except ConnectionError:
                # The server may have closed it while it was idle; only a read is sent again.
                if request.method not in ("GET", "HEAD"):
                    raise
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            _, connection = await asyncio.get_running_loop().create_connection(
                HttpClientConnection, self._host, self._port, ssl=self._tls
            )
        return await exchange(request, connection, target, fields)

    def _response(self, request: HttpRequest, connection: HttpClientConnection) -> HttpResponse:
        status = connection.status
        if status == 101 and not proxyheaders.asks_upgrade(request):
            connection.abort()
            return _status(502, "ServiceUnavailable", "the server switched protocols without being asked")
        headers = proxyheaders.answer_headers(connection.fields, status == 101)
        headers = [field for field in headers if field[0].lower() != b"set-cookie"]
        if status == 101:
            return HttpResponse(101, StreamRelay(connection, _nothing), b"", headers)
        kind = connection.headers.get("content-type", "").encode("latin-1") or b"application/octet-stream"
        length = proxyheaders.length_of(connection.headers)
        release = self._release(request)
        response = HttpResponse(status, b"", kind, [*headers, *_missing(headers)])
        if request.method == "HEAD" or status in _BODILESS:
            release(connection)
            response.length = -1 if length is None else length
            return response
        response.body = BodyRelay(connection, _nothing, release)
        response.length = length
        return response

    def _release(self, request: HttpRequest) -> Callable[[HttpClientConnection], None]:
        upload = request.upload

        def release(connection: HttpClientConnection) -> None:
            if upload is not None and not upload.is_complete:
                connection.abort()
                return
            connection.resume()
            self._idle.put(None, connection)

        return release


def _missing(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    present = {name.lower() for name, _ in headers}
    return [field for field in SECURITY_HEADERS if field[0].lower() not in present]


def _redirect(location: str, *more: tuple[bytes, bytes]) -> HttpResponse:
    headers = [(b"Location", location.encode()), (b"Cache-Control", b"no-store"), *SECURITY_HEADERS, *more]
    return HttpResponse(303, b"", b"text/plain; charset=utf-8", headers)


def _json(status: int, value: object) -> HttpResponse:
    return HttpResponse(
        status, orjson.dumps(value), headers=[*SECURITY_HEADERS, (b"Cache-Control", b"no-store")]
    )


def _status(code: int, reason: str, message: str) -> HttpResponse:
    """As the API server's errors are, so that the console shows both alike."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return _json(code, {**body, "message": message, "reason": reason, "code": code})


def _nothing() -> None:
    pass
