"""What reaches the API by the console's paths, and what is refused before it."""

import asyncio
import time
from pathlib import Path

import orjson
import pytest

from alcove.api.ids import TenantId
from alcove.apiserver.auth.oidc.issuer_client import IssuerClient
from alcove.apiserver.auth.oidc.issuer_keys import FetchCounts
from alcove.apiserver.auth.oidc.providers import ProviderParts
from alcove.apiserver.auth.oidc.tenant_providers import TenantProviders
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.console.ended import EndedSessions
from alcove.apiserver.console.gate import WHO_AM_I, ConsoleGate
from alcove.apiserver.console.oidc_sign_in import OidcSignIn
from alcove.apiserver.console.sealing import KEY_BYTES
from alcove.apiserver.console.sessions import COOKIE, ConsoleSessions
from alcove.apiserver.identity import Identity
from alcove.apiserver.responses import json_response
from alcove.console.files import ConsoleFiles
from alcove.http.messages import HttpRequest, HttpResponse
from alcove.http.turns import ReadingTurns
from alcove.testing.memory_reader import MemoryReader
from alcove.testing.webhook_calls import webhook_dialer

OWN = {"host": "api:6443", "x-alcove-console": "1"}


class Api:
    """Remembers the requests that it gets, and answers as one who knows the token "good"."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        if request.headers.get("authorization") not in ("Bearer good", None):
            return json_response(401, {"kind": "Status", "code": 401})
        extra = {"alcove/tenant": ["acme"]}
        response = json_response(201, {"status": {"userInfo": {"username": "ann", "extra": extra}}})
        response.headers = [(b"Set-Cookie", b"planted=1"), (b"Content-Security-Policy", b"none at all")]
        return response


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def kept(tmp_path: Path) -> ConsoleSessions:
    ended = EndedSessions(tmp_path / "ended", lambda: 1000.0)
    return ConsoleSessions(b"k" * KEY_BYTES, lambda: 1000.0, ended)


@pytest.fixture
def gate(api: Api, kept: ConsoleSessions, tmp_path: Path) -> ConsoleGate:
    (tmp_path / "index.html").write_text("index")
    client = IssuerClient(webhook_dialer(), ReadingTurns(), ComputeThreads())
    parts = ProviderParts(client, ComputeThreads(), time.time, FetchCounts())
    sign_in = OidcSignIn(TenantProviders(MemoryReader(), parts), client, b"k" * KEY_BYTES, time.time)
    return ConsoleGate(api, ConsoleFiles(tmp_path), kept, sign_in)


async def send(
    gate: ConsoleGate, method: str, path: str, headers: dict[str, str], body: bytes = b"", peer: object = None
) -> HttpResponse:
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    answer = gate.handle(HttpRequest(method, path, "", headers, body, fields, peer))
    return await answer if asyncio.iscoroutine(answer) else answer


def cookies(response: HttpResponse) -> list[bytes]:
    return [value for name, value in response.headers or () if name == b"Set-Cookie"]


async def sign_in(gate: ConsoleGate, token: str) -> HttpResponse:
    return await send(gate, "POST", "/console/session", dict(OWN), orjson.dumps({"token": token}))


async def test_what_is_not_the_consoles_goes_on_unchanged(gate: ConsoleGate, api: Api) -> None:
    for path in ("/api/v1/pods", "/consoles", "/console-x/k8s/api"):
        await send(gate, "GET", path, {"host": "api:6443", "cookie": "a=b"})
        assert api.requests[-1].path == path and api.requests[-1].headers["cookie"] == "a=b"
    moved = await send(gate, "GET", "/console", {"host": "api:6443"})
    assert moved.status == 308 and (b"Location", b"/console/") in (moved.headers or ())


async def test_a_token_becomes_a_cookie_that_scripts_cannot_read(gate: ConsoleGate, api: Api) -> None:
    response = await sign_in(gate, "good")
    [cookie] = cookies(response)
    assert response.status == 201 and b"good" not in cookie
    for attribute in (b"HttpOnly", b"Secure", b"SameSite=Strict", b"Path=/console/", b"Max-Age="):
        assert attribute in cookie
    value = cookie.decode().partition("=")[2].partition(";")[0]
    headers = {**OWN, "cookie": f"{COOKIE}={value}", "authorization": "Bearer planted"}
    answer = await send(gate, "GET", "/console/k8s/api/v1/pods", headers)
    sent = api.requests[-1]
    assert (sent.path, sent.headers["authorization"]) == ("/tenants/acme/api/v1/pods", "Bearer good")
    assert "cookie" not in sent.headers and b"cookie" not in dict(sent.fields)
    assert cookies(answer) == []
    policies = [value for name, value in answer.headers or () if name == b"Content-Security-Policy"]
    assert len(policies) == 1 and b"default-src 'none'" in policies[0]


@pytest.mark.parametrize("token", ("bad", "", "a b", "a\r\nb", "x" * 3000, "ü"))
async def test_a_wrong_token_starts_no_session(gate: ConsoleGate, token: str) -> None:
    response = await sign_in(gate, token)
    assert response.status in (400, 401) and cookies(response) == []


@pytest.mark.parametrize("body", (b"", b"{", b"[]", b'{"token": 1}', b'"token"', b"{}"))
async def test_a_malformed_sign_in_is_refused(gate: ConsoleGate, body: bytes) -> None:
    assert (await send(gate, "POST", "/console/session", dict(OWN), body)).status == 400


async def test_signing_out_ends_the_session_and_removes_the_cookie(
    gate: ConsoleGate, kept: ConsoleSessions
) -> None:
    headers = {**OWN, "cookie": f"{COOKIE}={kept.start(TenantId('acme'), 'good')}"}
    assert (await send(gate, "GET", "/console/k8s/api", dict(headers))).status == 201
    ended = await send(gate, "DELETE", "/console/session", dict(headers))
    assert ended.status == 200 and b"Max-Age=0" in cookies(ended)[0]
    assert (await send(gate, "GET", "/console/k8s/api", dict(headers))).status == 401


async def test_other_sites_reach_neither_the_api_nor_sessions(
    gate: ConsoleGate, api: Api, kept: ConsoleSessions
) -> None:
    cookie = f"{COOKIE}={kept.start(TenantId('acme'), 'good')}"
    for more in ({}, {**OWN, "origin": "https://evil.example"}, {**OWN, "sec-fetch-site": "cross-site"}):
        headers = {"host": "api:6443", "cookie": cookie, **more}
        for method, path in (
            ("GET", "/console/k8s/api"),
            ("POST", "/console/session"),
            ("DELETE", "/console/session"),
        ):
            response = await send(gate, method, path, dict(headers), peer=Identity(TenantId("acme"), "ann"))
            assert response.status == 403
    assert api.requests == []


async def test_a_client_certificate_needs_no_session_and_a_session_comes_before_it(
    gate: ConsoleGate, api: Api, kept: ConsoleSessions
) -> None:
    peer = Identity(TenantId("acme"), "ann")
    assert (await send(gate, "GET", "/console/k8s/api", dict(OWN), peer=peer)).status == 201
    assert api.requests[-1].peer == peer
    headers = {**OWN, "cookie": f"{COOKIE}={kept.start(TenantId('acme'), 'good')}"}
    await send(gate, "GET", "/console/k8s/api", headers, peer=peer)
    assert api.requests[-1].peer is None and api.requests[-1].headers["authorization"] == "Bearer good"
    assert (await send(gate, "GET", "/console/k8s/api", dict(OWN))).status == 401


@pytest.mark.parametrize(
    "path",
    (
        "/api/v1/namespaces/default/pods/web/proxy/",
        "/tenants/acme/api/v1/namespaces/default/services/web:80/proxy/index.html",
        "/api/v1/nodes/n1/proxy/logs",
    ),
)
async def test_pages_of_pods_are_not_of_the_consoles_origin(gate: ConsoleGate, api: Api, path: str) -> None:
    peer = Identity(TenantId("acme"), "ann")
    response = await send(gate, "GET", f"/console/k8s{path}", dict(OWN), peer=peer)
    assert response.status == 403 and api.requests == []


async def test_a_tenants_session_is_for_that_tenant(gate: ConsoleGate, api: Api) -> None:
    """Tokens of a tenant's OIDC issuer count where the path names the tenant; elsewhere the session has not ended."""
    [cookie] = cookies(await sign_in(gate, "good"))
    headers = {**OWN, "cookie": cookie.decode().partition(";")[0]}
    for path in ("/tenants/acme/api/v1/pods", "/api/v1/tenants/acme/namespaces/default/pods"):
        await send(gate, "GET", f"/console/k8s{path}", dict(headers))
        assert api.requests[-1].path == path
    await send(gate, "GET", "/console/k8s/version", dict(headers))
    assert api.requests[-1].path == "/tenants/acme/version"
    asked = len(api.requests)
    for path in ("/tenants/other/api/v1/pods", "/tenants/system/api", "/api/v1/tenants/all/pods"):
        assert (await send(gate, "GET", f"/console/k8s{path}", dict(headers))).status == 403
    assert len(api.requests) == asked


async def test_a_pasted_token_may_name_its_tenant(gate: ConsoleGate, api: Api) -> None:
    body = orjson.dumps({"token": "good", "tenant": "acme"})
    assert (await send(gate, "POST", "/console/session", dict(OWN), body)).status == 201
    assert api.requests[-1].path == f"/tenants/acme{WHO_AM_I}"
    await send(
        gate, "POST", "/console/session", dict(OWN), orjson.dumps({"token": "good", "tenant": "../system"})
    )
    assert api.requests[-1].path == f"/tenants/..%2Fsystem{WHO_AM_I}"


async def test_signing_in_at_a_provider_begins_with_a_request_of_the_page(
    gate: ConsoleGate, api: Api
) -> None:
    body = orjson.dumps({"tenant": "acme", "provider": "sso"})
    without = {"host": "api:6443"}
    assert (await send(gate, "POST", "/console/oidc", without, body)).status == 403
    evil = {**OWN, "origin": "https://evil.example"}
    assert (await send(gate, "POST", "/console/oidc", evil, body)).status == 403
    assert (await send(gate, "POST", "/console/oidc", dict(OWN), body)).status == 404
    assert (await send(gate, "POST", "/console/oidc", dict(OWN), b"[]")).status == 400
    assert (await send(gate, "GET", "/console/oidc", dict(OWN))).status == 405
    assert not api.requests


async def test_the_way_back_needs_the_cookie_and_shows_no_markup(gate: ConsoleGate, api: Api) -> None:
    path = "/console/oidc/acme/sso"
    back = await send(gate, "GET", path, {"host": "api:6443"})
    assert back.status == 400 and isinstance(back.body, bytes) and b"Signing in failed" in back.body
    assert back.content_type.startswith(b"text/plain") and (b"X-Content-Type-Options", b"nosniff") in (
        back.headers or ()
    )
    assert any(b"Max-Age=0" in cookie for cookie in cookies(back))
    framed = {"host": "api:6443", "sec-fetch-dest": "iframe"}
    assert (await send(gate, "GET", path, framed)).status == 405
    assert (await send(gate, "POST", path, {"host": "api:6443"})).status == 405
    assert not api.requests


async def test_a_query_of_very_many_fields_is_not_parsed(gate: ConsoleGate) -> None:
    """Anybody may send it: 64 KiB took 20 ms."""
    answer = gate.handle(HttpRequest("GET", "/console/session", "a=1&" * 17, dict(OWN), b"", [], None))
    assert isinstance(answer, HttpResponse) and answer.status == 400


async def test_the_page_learns_of_providers(gate: ConsoleGate) -> None:
    answer = await send(gate, "GET", "/console/session", dict(OWN))
    assert isinstance(answer.body, bytes)
    assert orjson.loads(answer.body) == {"signIn": "token", "isSignedIn": False, "providers": []}
