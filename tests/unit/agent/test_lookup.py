"""What a node looks up for its pods, on a real API server."""

import pytest

from alcove.agent import lookup as lookups
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.testing.lookups import in_default, looking_up, make_pod, named
from alcove.testing.server import Caller, LocalServer


def tenant_of(caller: Caller) -> str:
    return str(caller.get("/api/v1/namespaces/default").json["metadata"]["tenant"])


async def test_objects_are_the_pods_own_tenants(server: LocalServer, tenant: Caller) -> None:
    whose = tenant_of(tenant)
    key, _ = make_pod(server, whose, {})
    other = PodKey(key.plane, TenantId("system"), key.namespace, key.name, key.uid)
    assert server.system.post(in_default(whose, "secrets"), named("mine")).status == 201
    assert server.system.post(in_default(whose, "configmaps"), named("mine")).status == 201
    async with looking_up(server) as lookup:
        for look in (lookup.secret, lookup.config_map):
            found = await look(key, "mine")
            assert found is not None and found["metadata"]["tenant"] == whose
            assert await look(key, "none") is None
            assert await look(other, "mine") is None
        assert await lookup.claim(key, "none") is None
        assert await lookup.volume(key, "none") is None


async def test_answers_are_remembered_for_some_seconds(server: LocalServer, tenant: Caller) -> None:
    whose = tenant_of(tenant)
    key, _ = make_pod(server, whose, {})
    body = {"metadata": {"name": "m"}, "data": {"a": "1"}}
    assert server.system.post(in_default(whose, "configmaps"), body).status == 201
    async with looking_up(server, seconds=1000) as lookup:
        first = await lookup.config_map(key, "m")
        change = {"data": {"a": "2"}}
        assert server.system.patch(in_default(whose, "configmaps/m"), change).status == 200
        assert await lookup.config_map(key, "m") is first
        lookup.forget(key)
        found = await lookup.config_map(key, "m")
        assert found is not None and found["data"] == {"a": "2"}


async def test_tokens_end_with_the_pod(server: LocalServer, tenant: Caller) -> None:
    whose = tenant_of(tenant)
    key, pod = make_pod(server, whose, {})
    async with looking_up(server) as lookup:
        made = await lookup.token(key, pod["spec"]["serviceAccountName"], ["somebody"], 900)
        assert made is not None and made["status"]["token"].count(".") == 2
        review = {"spec": {"token": made["status"]["token"], "audiences": ["somebody"]}}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        assert tenant.post(path, review).json["status"]["authenticated"] is True
        assert await lookup.token(key, "no-such-account", [], 900) is None
        assert server.system.delete(in_default(whose, f"pods/{key.name}?gracePeriodSeconds=0")).status == 200
        assert not tenant.post(path, review).json["status"].get("authenticated")


async def test_objects_in_the_cache_have_a_bound_in_bytes_and_go_when_they_are_old(
    server: LocalServer, tenant: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's large config maps must not fill the agent's memory."""
    whose = tenant_of(tenant)
    key, _ = make_pod(server, whose, {})
    for name in ("a", "b", "c"):
        body = {"metadata": {"name": name}, "data": {"x": name * 40_000}}
        assert server.system.post(in_default(whose, "configmaps"), body).status == 201
    monkeypatch.setattr(lookups, "CACHE_BYTES_MAX", 100_000)
    async with looking_up(server, seconds=1000) as lookup:
        first, second = [await lookup.config_map(key, name) for name in ("a", "b")]
        assert await lookup.config_map(key, "a") is first
        third = await lookup.config_map(key, "c")
        assert await lookup.config_map(key, "c") is third
        assert await lookup.config_map(key, "b") is second
        assert await lookup.config_map(key, "a") is not first
        assert lookup._cached_bytes <= 100_000
        lookup.forget(key)
        assert lookup._cached_bytes == 0
    async with looking_up(server, seconds=0) as lookup:
        for name in ("a", "b", "c"):
            await lookup.config_map(key, name)
        assert len(lookup._cache) <= 1
