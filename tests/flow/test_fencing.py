"""Writes that name a lease are taken only from its holder."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer
from alcove.testing.webhook_server import WebhookServer, allowed

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def lease(server: LocalServer) -> Iterator[str]:
    name = "fence"
    made = {"metadata": {"name": name}, "spec": {"holderIdentity": "first"}}
    assert server.system.post(LEASES, made).status == 201
    yield name
    server.system.delete(f"{LEASES}/{name}")


def write(caller: Caller, name: str, fence: str) -> int:
    return caller.post(MAPS, {"metadata": {"name": name}}, alcove_fence=fence).status


def test_only_the_holder_writes(server: LocalServer, lease: str) -> None:
    ring0 = server.system
    assert write(ring0, "fenced-1", f"{lease}/first") == 201
    refused = ring0.post(MAPS, {"metadata": {"name": "fenced-2"}}, alcove_fence=f"{lease}/second")
    assert refused.status == 409 and "does not hold the lease" in refused.json["message"]
    ring0.patch(f"{LEASES}/{lease}", {"spec": {"holderIdentity": "second"}})
    assert write(ring0, "fenced-2", f"{lease}/first") == 409
    assert write(ring0, "fenced-2", f"{lease}/second") == 201
    for verb in (ring0.put, ring0.patch):
        status = verb(
            f"{MAPS}/fenced-1", {"metadata": {"name": "fenced-1"}}, alcove_fence=f"{lease}/first"
        ).status
        assert status == 409
    assert ring0.delete(f"{MAPS}/fenced-1", None, alcove_fence=f"{lease}/first").status == 409


@pytest.mark.parametrize("fence", ["none/first", "fence", "fence/", ""])
def test_a_fence_that_names_no_holder_lets_nothing_pass(server: LocalServer, lease: str, fence: str) -> None:
    assert write(server.system, "never", fence) == 409


def test_reading_needs_no_lease(server: LocalServer, lease: str) -> None:
    assert server.system.get(MAPS, alcove_fence=f"{lease}/nobody").status == 200


def test_a_tenant_cannot_ask_who_holds_ring0s_leases(lease: str, tenant: Caller) -> None:
    assert write(tenant, "own", f"{lease}/nobody") == 201


@pytest.mark.parametrize("verb", ["post", "patch", "delete"])
def test_a_write_that_was_let_in_before_another_took_over_is_not_made(tmp_path: Path, verb: str) -> None:
    """Admission can take its time. What counts is who holds the lease when the write is committed."""
    with LocalServer(tmp_path, "--webhook-network", "127.0.0.0/8") as server:
        server.make_namespace("system", "default")
        server.make_namespace("system", "kube-system")
        ring0, other = server.system, Caller(server.admin_kubeconfig)
        ring0.post(LEASES, {"metadata": {"name": "fence"}, "spec": {"holderIdentity": "first"}})
        ring0.post(MAPS, {"metadata": {"name": "there"}, "data": {"by": "nobody"}})

        def take_over(_path: str, review: dict[str, Any]) -> dict[str, Any]:
            other.patch(f"{LEASES}/fence", {"spec": {"holderIdentity": "second"}})
            return allowed(review)

        with WebhookServer(take_over) as webhook:
            _install(ring0, webhook)
            if verb == "post":
                answer = ring0.post(MAPS, {"metadata": {"name": "new"}}, alcove_fence="fence/first")
            elif verb == "patch":
                answer = ring0.patch(f"{MAPS}/there", {"data": {"by": "first"}}, alcove_fence="fence/first")
            else:
                answer = ring0.delete(f"{MAPS}/there", None, alcove_fence="fence/first")
            assert webhook.seen
        assert answer.status == 409 and "does not hold the lease" in answer.json["message"]
        assert ring0.get(f"{MAPS}/new").status == 404
        assert ring0.get(f"{MAPS}/there").json["data"] == {"by": "nobody"}


def test_a_holder_that_renews_its_lease_meanwhile_goes_on(server: LocalServer, lease: str) -> None:
    renewing, using = Caller(server.admin_kubeconfig), Caller(server.admin_kubeconfig)
    path, fence = f"{LEASES}/{lease}", f"{lease}/first"
    with ThreadPoolExecutor(1) as thread:
        renewed = [
            thread.submit(renewing.patch, path, {"spec": {"leaseTransitions": number}})
            for number in range(100)
        ]
        made = {
            using.post(MAPS, {"metadata": {"name": f"kept-{number}"}}, alcove_fence=fence).status
            for number in range(100)
        }
    assert {each.result().status for each in renewed} == {200} and made == {201}


def _install(ring0: Caller, webhook: WebhookServer) -> None:
    hook = {
        "name": "slow.example.com",
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": webhook.client("/"),
    }
    made = ring0.post(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {"metadata": {"name": "slow"}, "webhooks": [hook]},
    )
    assert made.status == 201, made.body
