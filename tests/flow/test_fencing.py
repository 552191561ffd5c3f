"""Writes that name a lease are taken only from its holder."""

from collections.abc import Iterator

import pytest

from alcove.testing.server import Caller, LocalServer

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
    assert refused.status == 409 and "does not hold it" in refused.json["message"]
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
