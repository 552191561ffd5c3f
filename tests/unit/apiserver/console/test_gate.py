"""What reaches the API by the console's paths, and what is refused before it."""

import asyncio
from pathlib import Path

import orjson
import pytest

from alcove.api.ids import TenantId
from alcove.apiserver.console.ended import EndedSessions
from alcove.apiserver.console.gate import ConsoleGate
from alcove.apiserver.console.sessions import COOKIE, KEY_BYTES, ConsoleSessions
from alcove.apiserver.identity import Identity
from alcove.apiserver.responses import json_response
from alcove.console.files import ConsoleFiles
from alcove.http.messages import HttpRequest, HttpResponse

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
    return ConsoleGate(api, ConsoleFiles(tmp_path), kept)


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
    assert (sent.path, sent.headers["authorization"]) == ("/api/v1/pods", "Bearer good")
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
