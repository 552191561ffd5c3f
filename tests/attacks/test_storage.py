"""A tenant fills the store as far as it may: it is refused, others and the tenant's own clean-up are not."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator

import orjson
import pytest

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.api.tenant_closures import closure_name
from alcove.testing.server import Caller, LocalServer

MIB_MAX = 4
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    options = ("--tenant-stored-mib-max", str(MIB_MAX))
    with LocalServer(tmp_path_factory.mktemp("storage"), *options) as running:
        yield running


def large(name: str, size: int = 900_000) -> Object:
    return {"metadata": {"name": name, "finalizers": ["a.example/f"]}, "data": {"a": "x" * size}}


def fill(caller: Caller) -> int:
    """Stores objects until the server refuses another; returns how many."""
    for number in range(MIB_MAX * 2):
        answer = caller.post(MAPS, large(f"m{number}"))
        if answer.status != 201:
            assert answer.status == 403, answer.body
            assert "exceeded quota: the tenant's objects would take more than 4 MiB" in answer.json["message"]
            return number
    raise AssertionError("never refused")


def test_objects_of_a_tenant_fill_its_own_share_of_the_store_and_no_more(
    server: LocalServer, tenant: Caller
) -> None:
    stored = fill(tenant)
    assert stored == 4
    # Nothing may grow, and everything may shrink.
    assert tenant.post(MAPS, large("rest", 500_000)).status == 201
    assert tenant.patch(f"{MAPS}/m0", {"data": {"b": "x" * 140_000}}).status == 403
    assert tenant.patch(f"{MAPS}/m0", {"data": {"a": "x"}}).status == 200
    assert tenant.post(MAPS, large("again")).status == 201
    # Another tenant does not notice.
    other = server.make_tenant("other-storage")
    assert other.post(MAPS, large("m")).status == 201
    # What is full can be emptied, with finalizers too.
    for name in ("m0", "m1", "m2", "m3", "rest", "again"):
        assert tenant.delete(f"{MAPS}/{name}").status == 200
        assert tenant.patch(f"{MAPS}/{name}", {"metadata": {"finalizers": None}}).status == 200
    assert fill(tenant) == 4


def test_ring0_can_tell_and_end_what_it_has_begun_in_a_tenant_that_is_full(server: LocalServer) -> None:
    tenant, ring0 = server.make_tenant("full"), server.system
    below = f"/tenants/full{MAPS}"
    fill(tenant)
    assert ring0.post(below, large("ring0s", 900_000)).status == 201
    assert ring0.post(below, large("too-much", 900_000)).status == 403
    assert ring0.patch(f"{below}/m0", {"metadata": {"annotations": {"told": "x" * 50_000}}}).status == 200


def stored(tenant: str, name: str, **fields: object) -> Object:
    """An object as a tenant's own API server has it in its store."""
    uid, since = str(uuid.uuid4()), "2026-01-02T03:04:05Z"
    metadata = {
        "name": name,
        "namespace": "default",
        "tenant": tenant,
        "uid": uid,
        "creationTimestamp": since,
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def test_a_tenant_that_moves_here_brings_no_more_than_it_may_store(server: LocalServer) -> None:
    """Its own API server may send anything, and as much of it as it likes."""
    server.make_tenant("moved")
    lease = {"metadata": {"name": closure_name(TenantId("moved"))}, "spec": {"holderIdentity": "move"}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    assert server.system.post(leases, lease).status == 201

    def put(resource: str, *items: Object) -> tuple[int, str]:
        body = zlib.compress(orjson.dumps({"resource": resource, "items": items, "after": 0}))
        answer = server.system.request("PUT", "/api/v1/tenants/moved/content", body)
        return answer.status, str(answer.json.get("message", ""))

    dense = stored("moved", "dense", data={f"k{number}": "" for number in range(120_000)})
    assert put("configmaps", dense) == (413, "configmaps dense has too many values: more than 100000")
    classes = [stored("moved", f"p{number}", value=1, description="x" * 600_000) for number in range(2)]
    for each in classes:
        each |= {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "preemptionPolicy": "Never"}
        del each["metadata"]["namespace"]
    message = "all priorityclasses of a tenant can have at most 1048576 bytes together"
    assert put("priorityclasses.scheduling.k8s.io", *classes) == (403, message)
    large_maps = [stored("moved", f"m{number}", data={"x": "y" * 900_000}) for number in range(8)]
    taken = [put("configmaps", each) for each in large_maps]
    assert [status for status, _ in taken] == [200] * 5 + [403] * 3
    assert "the tenant's objects would take more than 5 MiB" in taken[-1][1]
