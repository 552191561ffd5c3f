"""GETs that come again are answered without the pipeline, until anything changes that the pipeline would look at."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.meta import format_time
from alcove.api.tenant_closures import NAMESPACE, closure_name
from alcove.apiserver import known_reads
from alcove.apiserver.app import App
from alcove.apiserver.auth.clientcert import CertificateIdentity
from alcove.http.connections import ConnectionSlot, ConnectionTable
from alcove.http.limits import LIMITS
from alcove.http.messages import Field, HttpRequest, HttpResponse, KnownHead
from alcove.processes.apiserver import serve
from alcove.processes.apiserver_config import ApiServerConfig

ACME = TenantId("acme")
RBAC = "/apis/rbac.authorization.k8s.io/v1/tenants/acme"
MAPS = "/api/v1/tenants/acme/namespaces/default/configmaps"
SHORT = "/api/v1/namespaces/default/configmaps/one"
HEADERS = {"host": "x", "accept": "application/json", "user-agent": "test"}


def certificate(tenant: TenantId, user: str, *groups: str) -> CertificateIdentity:
    now = time.time()
    return CertificateIdentity(tenant, user, groups, issued=now, expires=now + 600.0, serial=7)


def _fields(headers: dict[str, str]) -> list[Field]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


ADMIN = certificate(SYSTEM, "admin", "system:masters")


class Connection:
    """One caller's connection, as the HTTP server presents its requests."""

    def __init__(self, app: App, caller: CertificateIdentity) -> None:
        self._app = app
        self._slot: ConnectionSlot | None = ConnectionTable(LIMITS).open("192.0.2.7", 0.0)
        assert self._slot is not None
        self._slot.claim(caller.tenant)
        self._caller = caller
        self._head = KnownHead()

    def request(self, path: str = SHORT, **headers: str) -> HttpRequest:
        request = HttpRequest(
            "GET",
            path,
            "",
            HEADERS | headers,
            b"",
            _fields(headers),
            self._caller,
            "192.0.2.7",
            True,
            self._slot,
        )
        request.known_head = KnownHead() if headers else self._head
        return request

    async def get(self, path: str = SHORT, **headers: str) -> HttpResponse:
        response = self._app.handle(self.request(path, **headers))
        return response if isinstance(response, HttpResponse) else await response

    async def known(self, path: str = SHORT, **headers: str) -> HttpResponse | None:
        """The response without the pipeline; None if it has to decide. In an iteration of its own: one that is late leaves
        everything to the pipeline."""
        await asyncio.sleep(0)
        return self._app.known_reads.answer(self.request(path, **headers), "id")


async def write(app: App, method: str, path: str, body: Any = None) -> None:
    headers = {"host": "x", "content-type": "application/json"}
    if method == "PATCH":
        headers["content-type"] = "application/merge-patch+json"
    request = HttpRequest(method, path, "", headers, orjson.dumps(body) if body is not None else b"")
    request.peer = ADMIN
    response = app.handle(request)
    response = response if isinstance(response, HttpResponse) else await response
    assert response.status < 300, response.body


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with serve(ApiServerConfig(data=tmp_path, port=0)) as running:
        app = running.app
        await write(app, "POST", "/api/v1/tenants", {"metadata": {"name": ACME}})
        await write(app, "POST", "/api/v1/tenants/acme/namespaces", {"metadata": {"name": "default"}})
        await write(app, "POST", MAPS, {"metadata": {"name": "one"}, "data": {"key": "first"}})
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
        role = {"metadata": {"name": "reader"}, "rules": [rule]}
        await write(app, "POST", f"{RBAC}/namespaces/default/roles", role)
        binding = {
            "metadata": {"name": "readers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        await write(app, "POST", f"{RBAC}/namespaces/default/rolebindings", binding)
        yield app


@pytest.fixture
async def alice(app: App) -> Connection:
    """Has read the object, and need not be decided again."""
    connection = Connection(app, certificate(ACME, "alice"))
    assert await connection.known() is None
    assert (await connection.get()).status == 200
    assert await connection.known() is not None
    return connection


async def test_a_known_read_is_answered_as_the_pipeline_does(app: App, alice: Connection) -> None:
    again = await alice.get()
    fresh = await Connection(app, certificate(ACME, "alice")).get()
    assert again.status == 200
    assert (again.body, again.content_type) == (fresh.body, fresh.content_type)
    assert again.headers is not None
    assert [name for name, _ in again.headers] == [b"Audit-ID"]
    assert fresh.headers is not None
    assert [name for name, _ in fresh.headers] == [b"Audit-ID"]


async def test_it_shows_the_newest_state_and_ends_with_the_object(app: App, alice: Connection) -> None:
    await write(app, "PATCH", f"{MAPS}/one", {"data": {"key": "second"}})
    shown = await alice.known()
    assert shown is not None
    assert isinstance(shown.body, bytes)
    assert orjson.loads(shown.body)["data"] == {"key": "second"}
    await write(app, "DELETE", f"{MAPS}/one")
    assert await alice.known() is None
    assert (await alice.get()).status == 404


@pytest.mark.parametrize(
    "path", ["rolebindings/readers", "roles/reader"], ids=["binding is deleted", "role is deleted"]
)
async def test_a_right_that_is_taken_away_ends_at_once(app: App, alice: Connection, path: str) -> None:
    await write(app, "DELETE", f"{RBAC}/namespaces/default/{path}")
    assert await alice.known() is None
    assert (await alice.get()).status == 403


async def test_a_role_that_allows_less_ends_it_at_once(app: App, alice: Connection) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["other"]}
    await write(app, "PATCH", f"{RBAC}/namespaces/default/roles/reader", {"rules": [rule]})
    assert await alice.known() is None
    assert (await alice.get()).status == 403


async def test_a_revoked_certificate_ends_at_once(app: App, alice: Connection) -> None:
    revoked = [{"user": "alice", "issuedBefore": format_time(time.time() + 60)}]
    await write(app, "PATCH", "/api/v1/tenants/acme", {"spec": {"revokedCertificates": revoked}})
    assert await alice.known() is None
    assert (await alice.get()).status == 401


class _Time:
    """The machine's time, put forward."""

    def __init__(self) -> None:
        self._time = time.time
        self.forward_seconds = 0.0

    def __call__(self) -> float:
        return self._time() + self.forward_seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Time:
    clock = _Time()
    monkeypatch.setattr(time, "time", clock)
    return clock


async def test_an_expired_certificate_ends_it(clock: _Time, app: App, alice: Connection) -> None:
    clock.forward_seconds = 599.0
    assert await alice.known() is not None
    clock.forward_seconds = 601.0
    assert await alice.known() is None
    assert (await alice.get()).status == 401


async def test_a_closed_tenant_ends_it(app: App, alice: Connection) -> None:
    lease = {"metadata": {"name": closure_name(ACME)}, "spec": {"holderIdentity": "test"}}
    await write(app, "POST", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", lease)
    assert await alice.known() is None
    assert (await alice.get()).status == 503


async def test_a_tenant_that_divides_its_seats_is_told_how_requests_are_classified(
    app: App, alice: Connection
) -> None:
    level = {
        "metadata": {"name": "few"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    }
    path = "/apis/flowcontrol.apiserver.k8s.io/v1/tenants/acme/prioritylevelconfigurations"
    await write(app, "POST", path, level)
    assert await alice.known() is None
    headers = (await alice.get()).headers
    assert headers is not None
    assert any(name.lower().startswith(b"x-kubernetes-pf-") for name, _ in headers)


async def test_another_caller_or_other_headers_are_decided_by_the_pipeline(
    app: App, alice: Connection
) -> None:
    bob = Connection(app, certificate(ACME, "bob"))
    assert await bob.known() is None
    assert (await bob.get()).status == 403
    assert await bob.known() is None
    for header in ("impersonate-user", "authorization", "audit-id", "x-request-id", "upgrade"):
        assert await alice.known(**{header: "x"}) is None
    assert await alice.known(accept="application/yaml") is None
    assert (await alice.get(**{"impersonate-user": "bob"})).status == 403
    assert (await alice.get()).status == 200


async def test_nodes_and_bytes_that_are_not_stored_are_not_kept(app: App) -> None:
    node = Connection(app, certificate(SYSTEM, "system:node:n1", "system:nodes"))
    await node.get("/api/v1/tenants/acme")
    assert await node.known("/api/v1/tenants/acme") is None
    admin = Connection(app, ADMIN)
    built_in = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
    assert (await admin.get(built_in)).status == 200
    assert await admin.known(built_in) is None


@pytest.fixture
def few_kept(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(known_reads, "KNOWN_READS_MAX", 4)
    return 4


async def test_who_reads_everything_pushes_out_its_own(few_kept: int, app: App, alice: Connection) -> None:
    admin = Connection(app, ADMIN)
    paths = [f"{MAPS}/each-{number}" for number in range(2 * few_kept)]
    for path in paths:
        await write(app, "POST", MAPS, {"metadata": {"name": path.rpartition("/")[2]}})
        assert (await admin.get(path)).status == 200
    assert sum([await admin.known(path) is not None for path in paths]) == few_kept - 1
    assert await alice.known() is not None


async def test_each_known_read_is_audited_and_counted(tmp_path: Path) -> None:
    async with serve(ApiServerConfig(data=tmp_path, port=0)) as running:
        admin = Connection(running.app, ADMIN)
        for _ in range(5):
            assert (await admin.get("/api/v1/tenants/system")).status == 200
        metrics = await Connection(running.app, ADMIN).get("/metrics")
    events = [orjson.loads(line) for line in (tmp_path / "audit" / "system.log").read_bytes().splitlines()]
    reads = [event for event in events if event.get("objectRef", {}).get("resource") == "tenants"]
    assert len({event["auditID"] for event in reads}) == 5
    for event in reads:
        assert event["user"]["username"] == "admin"
        assert event["userAgent"] == "test"
        assert event["sourceIPs"] == ["192.0.2.7"]
    labels = b'code="200",group="",resource="tenants",scope="resource",subresource="",verb="GET",version="v1"'
    assert isinstance(metrics.body, bytes)
    counted = [line for line in metrics.body.splitlines() if line.startswith(b"apiserver_request_total{")]
    wanted = sorted(labels.split(b","))
    found = [line for line in counted if all(label in line for label in wanted)]
    assert len(found) == 1
    assert found[0].endswith(b" 5.0")
