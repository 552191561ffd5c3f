"""A tenant fills the store as far as it may: it is refused, others and the tenant's own clean-up are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alcove.api.objects import Object
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
