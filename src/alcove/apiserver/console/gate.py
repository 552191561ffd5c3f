"""What the API server answers below `/console/`: files, sessions, and the API with a session's token.

`/console/k8s/PATH` is the API's `/PATH`, asked with the session's token or the connection's client certificate. It goes
through the whole pipeline like any other request; only this prefix honours the cookie, and only for requests of the
console's own pages (`console/origins.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from alcove.api.errors import ApiError, BadRequest, Forbidden, MethodNotAllowed, Unauthorized
from alcove.api.ids import TenantId
from alcove.apiserver.console import sessions
from alcove.apiserver.console.sessions import COOKIE, ConsoleSessions
from alcove.apiserver.identity import Identity
from alcove.apiserver.responses import error_response, json_response
from alcove.apiserver.reviews import TENANT_EXTRA
from alcove.apiserver.streams.proxy_targets import path_of
from alcove.console import origins
from alcove.console.files import API, ROOT, SECURITY_HEADERS, SESSION, ConsoleFiles
from alcove.http.messages import HttpRequest, HttpResponse

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_BARE = ROOT.rstrip("/")
_REVIEW = orjson.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
_CREDENTIALS = frozenset(("cookie", "authorization"))
_OWN_HEADERS = frozenset((b"set-cookie", b"cache-control", *(name.lower() for name, _ in SECURITY_HEADERS)))

Answer = HttpResponse | Coroutine[Any, Any, HttpResponse]


NOT_PROXIED = "the console does not proxy to pods, services and nodes; use kubectl proxy"


def is_proxied(path: str) -> bool:
    """Whether a pod, service or node answers the path: with pages of its own, which must not be of the console's
    origin."""
    return "/proxy" in path and path_of(path) is not None


class ConsoleGate:
    """Stands before the pipeline: what is not the console's goes on to `api`."""

    def __init__(
        self, api: Callable[[HttpRequest], Answer], files: ConsoleFiles, kept: ConsoleSessions
    ) -> None:
        self._api = api
        self._files = files
        self._sessions = kept

    def handle(self, request: HttpRequest) -> Answer:
        path = request.path
        if not path.startswith(_BARE):
            return self._api(request)
        if path.startswith(f"{API}/"):
            return self._refused(request) or self._call(request)
        if path == SESSION:
            return self._refused(request) or self._session(request)
        if path.startswith(ROOT):
            return self._files.answer(request)
        if path == _BARE:
            return HttpResponse(308, b"", headers=[(b"Location", ROOT.encode()), *SECURITY_HEADERS])
        return self._api(request)

    def _refused(self, request: HttpRequest) -> HttpResponse | None:
        reason = origins.refusal(request, "https")
        return _error(Forbidden(reason)) if reason else None

    def _call(self, request: HttpRequest) -> Answer:
        path = request.path.removeprefix(API)
        if is_proxied(path):
            return _error(Forbidden(NOT_PROXIED))
        session = self._sessions.find(origins.cookie(request, COOKIE))
        if session is None and not isinstance(request.peer, Identity):
            return _error(Unauthorized("Unauthorized: sign in to the console"))
        _use(request, path)
        if session is not None:
            request.headers["authorization"] = f"Bearer {session.token}"
            request.peer = None  # Who has signed in is not asked for the certificate of the connection.
        answer = self._api(request)
        return _guarded(answer) if isinstance(answer, HttpResponse) else _guard(answer)

    def _session(self, request: HttpRequest) -> Answer:
        session = self._sessions.find(origins.cookie(request, COOKIE))
        match request.method:
            case "GET":
                is_signed_in = session is not None or isinstance(request.peer, Identity)
                return _guarded(json_response(200, {"signIn": "token", "isSignedIn": is_signed_in}))
            case "POST":
                return self._sign_in(request)
            case "DELETE":
                if session is not None:
                    self._sessions.end(session)
                return _guarded(json_response(200, {}), sessions.set_cookie("", 0))
        return _error(MethodNotAllowed("the server does not allow this method on the requested resource"))

    async def _sign_in(self, request: HttpRequest) -> HttpResponse:
        """Starts a session with the token in the body, if the API knows the token."""
        try:
            token = _token(request)
        except ApiError as error:
            return _error(error)
        request.body, request.raw_query, request.peer = _REVIEW, "", None
        _use(request, WHO_AM_I)
        request.headers |= {"authorization": f"Bearer {token}", "content-type": "application/json"}
        request.headers.pop("accept", None)
        answer = self._api(request)
        response = answer if isinstance(answer, HttpResponse) else await answer
        if response.status != 201 or not isinstance(response.body, bytes):
            return _guarded(response)
        user = orjson.loads(response.body)["status"]["userInfo"]
        value = self._sessions.start(TenantId(user["extra"][TENANT_EXTRA][0]), token)
        return _guarded(json_response(201, {"user": user}), sessions.set_cookie(value))


def _token(request: HttpRequest) -> str:
    """Raises BadRequest."""
    try:
        token = orjson.loads(request.body)["token"].strip()
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadRequest('the body must be {"token": "…"}') from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadRequest("this is not a bearer token")
    if len(token) > sessions.TOKEN_LENGTH_MAX:
        raise BadRequest(f"a token of more than {sessions.TOKEN_LENGTH_MAX} characters fits in no session")
    return str(token)


def _use(request: HttpRequest, path: str) -> None:
    """Turns a request to the console into one to the API, without credentials."""
    request.path = path
    request.headers = {name: value for name, value in request.headers.items() if name not in _CREDENTIALS}
    request.fields = [field for field in request.fields if field[0].lower().decode() not in _CREDENTIALS]


async def _guard(answer: Coroutine[Any, Any, HttpResponse]) -> HttpResponse:
    return _guarded(await answer)


def _guarded(response: HttpResponse, *more: tuple[bytes, bytes]) -> HttpResponse:
    """Adds the headers that keep a browser from showing an answer as a page. A tenant's extension server sets no cookie
    and no such header here."""
    kept = [field for field in response.headers or () if field[0].lower() not in _OWN_HEADERS]
    response.headers = [*kept, *SECURITY_HEADERS, (b"Cache-Control", b"no-store"), *more]
    return response


def _error(error: ApiError) -> HttpResponse:
    return _guarded(error_response(error))
