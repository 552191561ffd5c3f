"""Lists with a field that is indexed look only at the objects that have it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.api.resources import CONFIG_MAPS, PODS
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.resources import lookup
from alcove.apiserver.services import ApiServerServices
from alcove.store.base import Store

ENDPOINTS = GroupResource("mizar.com", "endpoints")


def services_with(pods_per_node: int) -> ApiServerServices:
    cache = Cache(cast(Store, None), lambda _events: None, TenantBuffers())
    revision = 0
    for tenant in ("a", "b"):
        for number in range(10 * pods_per_node):
            revision += 1
            put(cache, PODS, tenant, f"p{number}", revision, b'{"nodeName":"n%d"}' % (number % 10))
            spec = b'{"droplet":"n%d","vni":%d,"net":"s%d"}' % (number % 10, number, number % 5)
            put(cache, ENDPOINTS, tenant, f"e{number}", revision, spec)
            put(cache, CONFIG_MAPS, tenant, f"m{number}", revision, b"{}")
    return cast(ApiServerServices, SimpleNamespace(cache=cache))


def put(cache: Cache, resource: GroupResource, tenant: str, name: str, revision: int, spec: bytes) -> None:
    key = Key(resource, TenantId(tenant), "default", name)
    body = b'{"apiVersion":"v1","kind":"X","metadata":{},"spec":%b}' % spec
    cache._collection(resource).load(CacheEntry(key, Revision(revision), body))


def names(entries: Iterator[CacheEntry]) -> list[str]:
    return [f"{entry.key.tenant}/{entry.key.name}" for entry in entries]


def test_an_agents_list_costs_what_is_on_its_node() -> None:
    services = services_with(2)
    pods = lookup.candidates(services, None, PODS, None, {"spec.nodeName": "n3"})
    assert names(pods) == ["a/p13", "a/p3", "b/p13", "b/p3"]
    rest = lookup.candidates(services, None, PODS, None, {"spec.nodeName": "n3"}, ("a", "default", "p3"))
    assert names(rest) == ["b/p13", "b/p3"]
    a = TenantId("a")
    by_vni = lookup.candidates(services, a, ENDPOINTS, None, {"spec.vni": "7"})
    assert names(by_vni) == ["a/e7"]
    by_net = lookup.candidates(services, a, ENDPOINTS, None, {"spec.net": "s2"})
    assert names(by_net) == ["a/e12", "a/e17", "a/e2", "a/e7"]


def test_a_list_by_name_finds_it_without_the_others() -> None:
    services, a = services_with(2), TenantId("a")
    assert names(lookup.candidates(services, a, CONFIG_MAPS, "default", {"metadata.name": "m4"})) == ["a/m4"]
    assert not names(lookup.candidates(services, a, CONFIG_MAPS, "default", {"metadata.name": "none"}))
    assert len(names(lookup.candidates(services, a, CONFIG_MAPS, "default", {}))) == 20
