"""The console's server side: sessions at the API server, and `alcove console` on this machine."""

import http.client
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson
import pytest

from alcove.testing.server import Caller, LocalServer, ServerResponse

MAPS = "/api/v1/namespaces/default/configmaps"
OWN = {"x_alcove_console": "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def acme(server: LocalServer) -> Caller:
    return server.make_tenant("acme")


@pytest.fixture(scope="module")
def token(acme: Caller) -> str:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert acme.post(accounts, {"metadata": {"name": "viewer"}}).status == 201
    binding = {
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin-role"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
    }
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    assert acme.post(bindings, binding).status == 201
    made = acme.post(f"{accounts}/viewer/token", {"spec": {"expirationSeconds": 3600}})
    assert made.status == 201, made.body
    return str(made.json["status"]["token"])


def browser_of(caller: Caller) -> Caller:
    """A client without a credential of its own."""
    return Caller(caller.kubeconfig, anonymous=True)


def signed_in(caller: Caller, token: str) -> dict[str, str]:
    """The headers of a signed-in page's requests."""
    answer = browser_of(caller).post("/console/session", {"token": token}, **OWN)
    assert answer.status == 201, answer.body
    return {**OWN, "cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_a_session_is_its_tokens_user_and_nobody_else(server: LocalServer, acme: Caller, token: str) -> None:
    server.make_tenant("other")
    browser, page = browser_of(acme), signed_in(acme, token)
    assert browser.get(f"/console/k8s/tenants/acme{MAPS}", **page).status == 200
    other = browser.get(f"/console/k8s/tenants/other{MAPS}", **page)
    missing = browser.get(f"/console/k8s/tenants/missing{MAPS}", **page)
    assert other.status == missing.status == 403
    assert browser.get("/console/k8s/api/v1/tenants", **page).status == 403
    made = browser.post(f"/console/k8s{MAPS}", {"metadata": {"name": "made"}}, **page)
    assert made.status == 201 and made.json["metadata"]["tenant"] == "acme"


def test_the_cookie_means_nothing_to_the_api_itself(acme: Caller, token: str) -> None:
    page = signed_in(acme, token)
    for path in (MAPS, f"/tenants/acme{MAPS}", "/version/../console/k8s/api"):
        assert browser_of(acme).get(path, **page).status in (400, 401), path


def test_another_sites_requests_are_refused(acme: Caller, token: str) -> None:
    page = signed_in(acme, token)
    path = f"/console/k8s{MAPS}"
    for headers in (
        {"cookie": page["cookie"]},
        {**page, "origin": "https://evil.example"},
        {**page, "sec_fetch_site": "same-site"},
    ):
        assert browser_of(acme).get(path, **headers).status == 403
        assert browser_of(acme).delete("/console/session", None, **headers).status == 403
    assert browser_of(acme).get(path, **page).status == 200
    watch = f"{path}?watch=true&timeoutSeconds=1"
    assert browser_of(acme).get(watch, cookie=page["cookie"]).status == 403


def test_signing_out_ends_the_session_for_every_copy_of_its_cookie(acme: Caller, token: str) -> None:
    page = signed_in(acme, token)
    assert browser_of(acme).delete("/console/session", None, **page).status == 200
    assert browser_of(acme).get(f"/console/k8s{MAPS}", **page).status == 401


def test_a_session_ends_with_its_token(acme: Caller) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert acme.post(accounts, {"metadata": {"name": "brief"}}).status == 201
    made = acme.post(f"{accounts}/brief/token", {"spec": {}}).json["status"]["token"]
    page = signed_in(acme, made)
    assert browser_of(acme).get("/console/k8s/version", **page).status == 200
    assert acme.delete(f"{accounts}/brief").status == 200
    assert browser_of(acme).get(f"/console/k8s{MAPS}", **page).status == 401


def test_the_shipped_page_is_served_without_credentials(acme: Caller) -> None:
    page = browser_of(acme).get("/console/", accept_encoding="gzip")
    assert page.status == 200 and page.headers["content-encoding"] == "gzip"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in ("/console/app.js", "/console/style.css", "/console/icon.svg"):
        assert browser_of(acme).get(path).status == 200, path
    for path in ("/console/../api", "/console/%2e%2e/api", "/console/%2fetc%2fpasswd", "/console/app.js/"):
        assert browser_of(acme).get(path).status in (400, 401, 404), path


class LocalPage:
    """A browser at the address that `alcove console` prints."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc
        self.link = urlsplit(url).path + "?" + urlsplit(url).query

    def get(self, path: str, method: str = "GET", **headers: str) -> ServerResponse:
        connection = http.client.HTTPConnection(self.address, timeout=90)
        connection.request(method, path, headers={n.replace("_", "-"): v for n, v in headers.items()})
        response = connection.getresponse()
        answer = ServerResponse(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return answer


@pytest.fixture(scope="module")
def console(server: LocalServer, acme: Caller) -> Iterator[tuple[LocalPage, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "alcove.processes.main", "console", "--no-browser", "--tenant", "acme"]
    command += ["--kubeconfig", str(server.admin_kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield LocalPage(process.stdout.readline().split()[-1]), process
        finally:
            process.terminate()


def test_the_local_console_acts_as_the_tenants_administrator(
    console: tuple[LocalPage, "subprocess.Popen[str]"],
) -> None:
    page, process = console
    assert page.get("/console/").status == 200
    assert page.get(f"/console/k8s{MAPS}", **OWN).status == 401
    assert page.get("/console/open?code=wrong").status == 403
    opened = page.get(page.link)
    assert opened.status == 303 and opened.headers["Location"] == "/console/"
    assert page.get(page.link).status == 403, "the link works once"
    assert "HttpOnly" in opened.headers["Set-Cookie"] and "SameSite=Strict" in opened.headers["Set-Cookie"]
    own = {**OWN, "cookie": opened.headers["Set-Cookie"].partition(";")[0]}
    listed = page.get(f"/console/k8s{MAPS}", **own)
    assert listed.status == 200 and orjson.loads(listed.body)["kind"] == "ConfigMapList"
    assert page.get("/console/k8s/api/v1/tenants/other", **own).status == 403
    assert page.get(f"/console/k8s{MAPS}", cookie=own["cookie"]).status == 403
    for host in ("evil.example", f"evil.example:{page.address.partition(':')[2]}", ""):
        assert page.get(f"/console/k8s{MAPS}", host=host, **own).status in (400, 421)
    assert page.get(f"/console/k8s{MAPS}", origin="http://evil.example", **own).status == 403
    assert page.get("/console/session", "DELETE", **own).status == 200
    assert process.wait(60) == 0, "signing out ends the command"
