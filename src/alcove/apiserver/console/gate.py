"""What the API server answers below `/console/`: files, sessions, and the API with a session's token.

`/console/k8s/PATH` is the API's `/PATH`, asked with the session's token or the connection's client certificate. It goes
through the whole pipeline like any other request; only this prefix honours the cookie, and only for requests of the
console's own pages (`console/origins.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl, quote

import orjson

from alcove.api.errors import ApiError, BadRequest, Forbidden, MethodNotAllowed, Unauthorized
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver import paths
from alcove.apiserver.console import oidc_sign_in, sessions
from alcove.apiserver.console.oidc_sign_in import OidcSignIn
from alcove.apiserver.console.sessions import COOKIE, ConsoleSessions
from alcove.apiserver.identity import Identity
from alcove.apiserver.responses import error_response, json_response
from alcove.apiserver.reviews import TENANT_EXTRA
from alcove.apiserver.streams.proxy_targets import path_of
from alcove.console import origins
from alcove.console.files import API, OIDC, ROOT, SECURITY_HEADERS, SESSION, ConsoleFiles, plain
from alcove.http.connections import network_of
from alcove.http.messages import HttpRequest, HttpResponse

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_BARE = ROOT.rstrip("/")
_REVIEW = orjson.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
_CREDENTIALS = frozenset(("cookie", "authorization"))
_OWN_HEADERS = frozenset((b"set-cookie", b"cache-control", *(name.lower() for name, _ in SECURITY_HEADERS)))

_QUERY_FIELDS_MAX = 16

Answer = HttpResponse | Coroutine[Any, Any, HttpResponse]


NOT_PROXIED = "the console does not proxy to pods, services and nodes; use kubectl proxy"


def is_proxied(path: str) -> bool:
    """Whether a pod, service or node answers the path: with pages of its own, which must not be of the console's
    origin."""
    return "/proxy" in path and path_of(path) is not None


class ConsoleGate:
    """Stands before the pipeline: what is not the console's goes on to `api`."""

    def __init__(
        self,
        api: Callable[[HttpRequest], Answer],
        files: ConsoleFiles,
        kept: ConsoleSessions,
        oidc: OidcSignIn,
    ) -> None:
        self._api = api
        self._oidc = oidc
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
        if path == OIDC:
            return self._refused(request) or self._begin(request)
        if path.startswith(f"{OIDC}/"):
            return self._finish(request)
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
            named = _named_tenant(path)
            if named not in (None, session.tenant) and session.tenant != SYSTEM:
                # The API would not know the token of a tenant's OIDC issuer there, which is no end of the session.
                return _error(Forbidden(f'you are signed in to the tenant "{session.tenant}" only'))
            request.path = _in_tenant(path, session.tenant)
            request.headers["authorization"] = f"Bearer {session.token}"
            request.peer = None  # Who has signed in is not asked for the certificate of the connection.
        answer = self._api(request)
        return _guarded(answer) if isinstance(answer, HttpResponse) else _guard(answer)

    def _session(self, request: HttpRequest) -> Answer:
        session = self._sessions.find(origins.cookie(request, COOKIE))
        match request.method:
            case "GET":
                is_signed_in = session is not None or isinstance(request.peer, Identity)
                try:
                    asked = TenantId(_query(request).get("tenant", SYSTEM))
                except ValueError:
                    return _error(BadRequest("the query string has too many parameters"))
                answer = {
                    "signIn": "token",
                    "isSignedIn": is_signed_in,
                    "providers": self._oidc.listed(asked),
                }
                return _guarded(json_response(200, answer))
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
            token, tenant = _token(request)
        except ApiError as error:
            return _error(error)
        request.body, request.raw_query, request.peer = _REVIEW, "", None
        _use(request, _in_tenant(WHO_AM_I, tenant))
        request.headers |= {"authorization": f"Bearer {token}", "content-type": "application/json"}
        request.headers.pop("accept", None)
        answer = self._api(request)
        response = answer if isinstance(answer, HttpResponse) else await answer
        if response.status != 201 or not isinstance(response.body, bytes):
            return _guarded(response)
        user = orjson.loads(response.body)["status"]["userInfo"]
        value = self._sessions.start(TenantId(user["extra"][TENANT_EXTRA][0]), token)
        return _guarded(json_response(201, {"user": user}), sessions.set_cookie(value))

    async def _begin(self, request: HttpRequest) -> HttpResponse:
        """Begins to sign in at a provider: the page goes to the answer's location next."""
        if request.method != "POST":
            return _error(MethodNotAllowed("the server does not allow this method on the requested resource"))
        try:
            fields = orjson.loads(request.body)
            tenant, name = str(fields["tenant"] or SYSTEM), str(fields["provider"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return _error(BadRequest('the body must be {"tenant": "…", "provider": "…"}'))
        try:
            begun = await self._oidc.begin(TenantId(tenant), name, request.headers.get("host", ""))
        except ApiError as error:
            return _error(error)
        return _guarded(
            json_response(200, {"location": begun.location}), oidc_sign_in.set_cookie(begun.cookie)
        )

    async def _finish(self, request: HttpRequest) -> HttpResponse:
        """The browser comes back from a provider. This is a navigation that another site causes, so nothing but the sealed cookie
        tells that this browser has begun it."""
        headers = [(b"Cache-Control", b"no-store"), oidc_sign_in.set_cookie("", 0)]
        is_navigation = request.headers.get("sec-fetch-dest", "document") == "document"
        if request.method != "GET" or not is_navigation:
            return _error(MethodNotAllowed("the server does not allow this method on the requested resource"))
        try:
            query = _query(request)
            cookie = origins.cookie(request, oidc_sign_in.COOKIE)
            done = await self._oidc.finish(request.path, query, cookie, network_of(request.address))
        except ValueError:
            return _with_headers(plain(400, "the query cannot be read"), headers)
        except ApiError as error:
            return _with_headers(plain(error.code, f"Signing in failed: {error.message}"), headers)
        seconds = max(1, min(done.seconds, sessions.SESSION_SECONDS_MAX))
        value = self._sessions.start(done.tenant, done.token)
        headers += [sessions.set_cookie(value, seconds), (b"Location", ROOT.encode()), *SECURITY_HEADERS]
        return HttpResponse(303, b"", headers=headers)


def _in_tenant(path: str, tenant: TenantId) -> str:
    """The path with the tenant in it, if it names none: a token of a tenant's OIDC issuer counts where the tenant is named."""
    is_named = _named_tenant(path) is not None
    return path if is_named or tenant == SYSTEM else f"/tenants/{quote(tenant, safe='')}{path}"


def _named_tenant(path: str) -> TenantId | None:
    try:
        return paths.parse(path).tenant
    except BadRequest:
        return None  # As the API will say.


def _query(request: HttpRequest) -> dict[str, str]:
    """Raises ValueError if it has too many fields: anybody may send it, and it is parsed before anything is checked."""
    return dict(parse_qsl(request.raw_query, max_num_fields=_QUERY_FIELDS_MAX))


def _with_headers(response: HttpResponse, headers: list[tuple[bytes, bytes]]) -> HttpResponse:
    response.headers = [*(response.headers or ()), *headers]
    return response


def _token(request: HttpRequest) -> tuple[str, TenantId]:
    """The token, and the tenant that the user has named. Raises BadRequest."""
    try:
        fields = orjson.loads(request.body)
        token, tenant = fields["token"].strip(), TenantId(str(fields.get("tenant") or SYSTEM))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadRequest('the body must be {"token": "…"}') from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadRequest("this is not a bearer token")
    if len(token) > sessions.TOKEN_LENGTH_MAX:
        raise BadRequest(f"a token of more than {sessions.TOKEN_LENGTH_MAX} characters fits in no session")
    return str(token), tenant


def _use(request: HttpRequest, path: str) -> None:
    """Turns a request to the console into one to the API, without credentials."""
    request.path, request.known_head = path, None
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
