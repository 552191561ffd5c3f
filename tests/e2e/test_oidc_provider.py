"""Signing in to the console at a real OpenID provider: the npm package oidc-provider, which insists on PKCE.

It is installed by nobody here: where `NODE_PATH` has it, this runs (`npm install --prefix DIR oidc-provider`, then
`NODE_PATH=DIR/node_modules`).
"""

import html
import http.cookiejar
import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import pytest

from alcove.testing.claims import free_port
from alcove.testing.server import Caller, LocalServer, wait_until
from alcove.testing.webhook_server import issue

PACKAGE = Path(os.environ.get("NODE_PATH", "/nonexistent")) / "oidc-provider" / "lib" / "index.js"
LACKING = (
    "" if shutil.which("node") and PACKAGE.exists() else "needs node, and oidc-provider where NODE_PATH says"
)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(LACKING), reason=LACKING)]

OWN = {"x_alcove_console": "1"}
WHO_AM_I = "/console/k8s/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
PROVIDER = """
import fs from 'node:fs';
import https from 'node:https';
const [, , library, port, redirect, pair] = process.argv;
const { default: Provider } = await import(library);
const pem = fs.readFileSync(pair);
const provider = new Provider(`https://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'console', token_endpoint_auth_method: 'none', redirect_uris: [redirect],
    grant_types: ['authorization_code'], response_types: ['code'],
  }],
  pkce: { required: () => true },
  claims: { openid: ['sub'], profile: ['groups'] },
  conformIdTokenClaims: false,
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, groups: ['dev'] }) }),
});
https.createServer({ key: pem, cert: pem }, provider.callback()).listen(Number(port), '127.0.0.1');
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("server"), "--webhook-network", "127.0.0.0/8") as running:
        yield running


class OpenIdProvider:
    def __init__(self, directory: Path, redirect_uri: str) -> None:
        certificate, key = issue(())
        self.authority = certificate.decode()
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        pair, script = directory / "pair.pem", directory / "provider.mjs"
        pair.write_bytes(certificate + key)
        script.write_text(PROVIDER)
        arguments = ["node", str(script), str(PACKAGE), str(self.port), redirect_uri, str(pair)]
        self._process = subprocess.Popen(arguments)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class _StopsAtTheConsole(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        return (
            None
            if "/console/oidc/" in newurl
            else super().redirect_request(req, fp, code, msg, headers, newurl)
        )


class Browser:
    """At the provider: keeps its cookies, follows its redirects, fills in its forms."""

    def __init__(self, authority: str) -> None:
        self._open = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=authority)),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
            _StopsAtTheConsole(),
        ).open

    def sign_in(self, location: str, user: str) -> str:
        """The address of the console to which the provider sends the browser in the end."""
        url, form = location, None
        for _ in range(6):
            try:
                with self._open(url, form, timeout=60) as page:
                    text, at = page.read().decode(), page.url
            except urllib.error.HTTPError as error:
                assert error.code in (302, 303), error.read()
                return str(error.headers["Location"])
            action = re.search(r'<form[^>]*action="([^"]+)"', text)
            prompt = re.search(r'name="prompt" value="([^"]+)"', text)
            assert action and prompt, text
            url = urljoin(at, html.unescape(action[1]))
            form = urlencode({"prompt": prompt[1], "login": user, "password": "any"}).encode()
        raise AssertionError("the provider asks for ever")


@pytest.fixture(scope="module")
def provider(server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIdProvider]:
    host, port = server.address
    running = OpenIdProvider(
        tmp_path_factory.mktemp("provider"), f"https://{host}:{port}/console/oidc/acme/sso"
    )
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def acme(server: LocalServer, provider: OpenIdProvider) -> Caller:
    admin = server.make_tenant("acme")
    spec: dict[str, Any] = {
        "issuer": {
            "url": provider.url,
            "audiences": ["console"],
            "certificateAuthority": provider.authority,
        },
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "sso:"},
            "groups": {"claim": "groups", "prefix": "sso:"},
        },
        "console": {"clientID": "console", "displayName": "Acme"},
    }
    path = "/apis/authentication.alcove.io/v1alpha1/identityproviders"
    made = admin.post(path, {"metadata": {"name": "sso"}, "spec": spec})
    assert made.status == 201, made.body
    return admin


def begun(browser: Caller) -> tuple[str, str]:
    """The provider's address, and the cookie of the sign-in. The provider may not serve yet."""
    answers = []

    def begin() -> bool:
        answers.append(browser.post("/console/oidc", {"tenant": "acme", "provider": "sso"}, **OWN))
        return answers[-1].status == 200

    wait_until(begin)
    return answers[-1].json["location"], answers[-1].headers["set-cookie"].partition(";")[0]


def test_a_user_signs_in_works_and_signs_out(acme: Caller, provider: OpenIdProvider) -> None:
    console = Caller(acme.kubeconfig, anonymous=True)
    listed = console.get("/console/session?tenant=acme", **OWN).json["providers"]
    assert listed == [{"name": "sso", "displayName": "Acme"}]
    location, cookie = begun(console)
    back = urlsplit(Browser(provider.authority).sign_in(location, "ann"))
    assert set(parse_qs(back.query)) == {"code", "state", "iss"}
    path = f"{back.path}?{back.query}"
    assert console.get(path).status == 400, "another browser's cookie is needed"
    done = console.get(path, cookie=cookie)
    assert done.status == 303 and done.headers["location"] == "/console/", done.body
    found = re.search(r"__Secure-alcove-console=[^;]+", done.headers["set-cookie"])
    assert found
    page = {**OWN, "cookie": found[0]}
    user = console.post(WHO_AM_I, REVIEW, **page).json["status"]["userInfo"]
    assert (user["username"], user["groups"][0]) == ("sso:ann", "sso:dev")
    assert user["extra"]["alcove/tenant"] == ["acme"]
    assert console.get("/console/k8s/tenants/system/api/v1/nodes", **page).status == 403
    assert console.get(path, cookie=cookie).status in (401, 503), "a code works once"
    assert console.delete("/console/session", None, **page).status == 200
    assert console.post(WHO_AM_I, REVIEW, **page).status == 401


def test_a_code_without_the_verifier_that_asked_for_it_is_worth_nothing(
    acme: Caller, provider: OpenIdProvider
) -> None:
    """A code that somebody intercepted, brought to another sign-in: the provider refuses its verifier."""
    console = Caller(acme.kubeconfig, anonymous=True)
    location, _ = begun(console)
    stolen = parse_qs(urlsplit(Browser(provider.authority).sign_in(location, "ann")).query)
    own, cookie = begun(console)
    state = parse_qs(urlsplit(own).query)["state"][0]
    query = urlencode({"code": stolen["code"][0], "state": state, "iss": stolen["iss"][0]})
    refused = console.get(f"/console/oidc/acme/sso?{query}", cookie=cookie)
    assert refused.status == 503 and b"status 400" in refused.body
