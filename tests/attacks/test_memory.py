"""What a tenant makes the API server keep in memory or on disk is bounded, and the excess is the tenant's own loss."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from alcove.api.objects import Object
from alcove.testing.server import Caller, LocalServer, wait_until
from alcove.testing.webhook_server import WebhookServer, allowed

BUFFER_MIB = 8
MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
PART = b" " * (1 << 20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    options = ("--webhook-network", "127.0.0.0/8", "--tenant-buffer-mib-max", str(BUFFER_MIB))
    with LocalServer(tmp_path_factory.mktemp("memory"), *options) as running:
        yield running


def register(caller: Caller, webhook: WebhookServer) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook: Object = {
        "name": "large.example.com",
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
        "clientConfig": webhook.client(),
    }
    assert caller.post(HOOKS, {"metadata": {"name": "large"}, "webhooks": [hook]}).status == 201


def create(caller: Caller, name: str) -> int:
    own = Caller(caller.kubeconfig)
    try:
        return own.post(MAPS, {"metadata": {"name": name}}).status
    finally:
        own.close()


def test_answers_of_webhooks_fill_their_own_tenants_memory_alone(server: LocalServer, tenant: Caller) -> None:
    """Each answers with two megabytes, and does not end while others are called."""
    go_on = threading.Event()
    held_max = BUFFER_MIB // 2

    def respond(_path: str, review: Object) -> Iterator[bytes]:
        yield from (PART, PART)
        go_on.wait(60)
        yield orjson.dumps(allowed(review))

    other = server.make_tenant("calm")
    with WebhookServer(respond) as webhook, ThreadPoolExecutor(12) as threads:
        register(tenant, webhook)
        under_way = [threads.submit(create, tenant, f"m{number}") for number in range(12)]
        try:
            # All that have no room are refused before any of the others ends and makes room.
            wait_until(lambda: sum(each.done() for each in under_way) >= len(under_way) - held_max, 60)
            assert {each.result() for each in under_way if each.done()} == {429}
            assert create(other, "unharmed") == 201
        finally:
            go_on.set()
        assert {each.result() for each in under_way} == {201, 429}
        # What was counted is released.
        assert create(tenant, "later") == 201


def test_long_requests_of_a_tenant_push_nobody_elses_trail_out_of_the_audit_log(server: LocalServer) -> None:
    verbose, other = server.make_tenant("verbose"), server.make_tenant("trailed")
    assert other.request("GET", MAPS, audit_id="trail").status == 200
    for _ in range(50):
        assert verbose.request("GET", MAPS, user_agent="x" * 60_000).status == 200

    def entries(name: str) -> list[Object]:
        path = server.directory / "audit" / f"{name}.log"
        return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    found = wait_until(lambda: each if len(each := entries("verbose")) >= 50 else None, 30)
    assert max(len(orjson.dumps(each)) for each in found) < 4_096
    assert "trail" in {each["auditID"] for each in entries("trailed")}
