"""One id names a request in the answer, the audit log and the log, and in whatever it causes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.client.keys import ObjectKey
from alcove.client.resources import CONFIG_MAPS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.testing.controllers import RunningControllers
from alcove.testing.local import whole_lines
from alcove.testing.server import Caller, LocalServer, wait_until
from alcove.testing.webhook_server import WebhookServer, allowed

MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("ids")
    with LocalServer(directory, "--webhook-network", "127.0.0.0/8") as running:
        running.make_tenant("acme")
        yield running


@pytest.fixture
def acme(own_server: LocalServer) -> Caller:
    return own_server.as_tenant("acme")


def audit_events(server: LocalServer) -> list[dict[str, Any]]:
    paths = (server.directory / "audit").glob("*.log")
    return [json.loads(line) for path in paths for line in whole_lines(path)]


def audited(server: LocalServer, request_id: str, count: int = 1) -> list[dict[str, Any]]:
    def found() -> list[dict[str, Any]]:
        return [event for event in audit_events(server) if event["auditID"] == request_id]

    wait_until(lambda: len(found()) >= count)
    return found()


def test_the_clients_id_is_answered_and_audited(own_server: LocalServer, acme: Caller) -> None:
    answer = acme.post(MAPS, {"metadata": {"name": "traced"}}, audit_id="deploy-42")
    assert (answer.status, answer.headers["audit-id"]) == (201, "deploy-42")
    (event,) = audited(own_server, "deploy-42")
    assert (event["verb"], event["user"]["tenant"]) == ("create", "acme")
    assert acme.get(f"{MAPS}/traced", x_request_id="proxy-7").headers["audit-id"] == "proxy-7"


@pytest.mark.parametrize("chosen", ["x" * 65, "two words", 'a"b', "é", "$(id)", "-rf"])
def test_an_id_that_could_do_harm_is_replaced(own_server: LocalServer, acme: Caller, chosen: str) -> None:
    made = acme.get(MAPS, audit_id=chosen).headers["audit-id"]
    assert made != chosen and made.isalnum() and len(made) == 32
    audited(own_server, made)


def test_every_answer_has_an_id_of_its_own(own_server: LocalServer, acme: Caller) -> None:
    answers = [
        *(acme.get(MAPS) for _ in range(3)),
        acme.get(f"{MAPS}/absent"),
        acme.get("/api/v1/namespaces/UPPER/../x"),
        own_server.anonymous().get(MAPS),
        acme.get("/version"),
        acme.request("GET", f"{MAPS}?watch=1&timeoutSeconds=1"),
    ]
    ids = [answer.headers["audit-id"] for answer in answers]
    assert len(set(ids)) == len(ids)
    assert {401, 404} <= {answer.status for answer in answers}


def test_a_webhook_gets_the_id_of_the_write(acme: Caller) -> None:
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    ]
    with WebhookServer(lambda _path, review: allowed(review)) as webhook:
        hook = {
            "name": "check.example.com",
            "rules": rules,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": webhook.client(),
        }
        assert acme.post(HOOKS, {"metadata": {"name": "ids"}, "webhooks": [hook]}).status == 201
        try:
            acme.post(MAPS, {"metadata": {"name": "hooked"}}, audit_id="deploy-43")
            made = acme.post(MAPS, {"metadata": {"name": "hooked-2"}}).headers["audit-id"]
        finally:
            acme.delete(f"{HOOKS}/ids")
    assert webhook.request_ids == ["deploy-43", made]


class Twice(Controller):
    """Writes to every config map that asks for it, two times in one reconcile."""

    name = "twice"
    resource = CONFIG_MAPS
    workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._maps = self.mirror(CONFIG_MAPS)
        self.on(self._maps)

    async def reconcile(self, key: ObjectKey) -> Result:
        found = self._maps.get(key)
        if found is None or not key.name.startswith("twice") or "data" in found:
            return DONE
        written = await self.client(key).update(key.tenant, CONFIG_MAPS, {**found, "data": {"times": "1"}})
        await self.client(key).update(key.tenant, CONFIG_MAPS, {**written, "data": {"times": "2"}})
        return DONE


def test_the_writes_of_one_reconcile_share_an_id(own_server: LocalServer, acme: Caller) -> None:
    with RunningControllers(own_server.admin_kubeconfig, (Twice,)):
        for name in ("twice-a", "twice-b"):
            assert acme.post(MAPS, {"metadata": {"name": name}}).status == 201
        wait_until(
            lambda: all(
                acme.get(f"{MAPS}/{name}").json.get("data") == {"times": "2"}
                for name in ("twice-a", "twice-b")
            )
        )

    def updates() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for event in audit_events(own_server):
            if event["verb"] == "update" and event["objectRef"]["name"].startswith("twice"):
                found.setdefault(event["auditID"], []).append(event["objectRef"]["name"])
        return found

    wait_until(lambda: sum(map(len, updates().values())) >= 4)
    assert sorted(updates().values()) == [["twice-a", "twice-a"], ["twice-b", "twice-b"]]
