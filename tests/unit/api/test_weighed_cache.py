"""What is kept weighs no more than the bound, whoever fills it."""

import gc
import tracemalloc
from collections.abc import Callable
from ipaddress import IPv4Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import NETWORKS
from alcove.api.weighed_cache import IDLE_SECONDS, WeighedCache
from alcove.apiserver.admission.services import supply
from alcove.apiserver.cache.entries import CacheEntry
from alcove.client import plane_mirror
from alcove.dataplane import policies, services
from alcove.dataplane.model import (
    DataplaneService,
    PrefixBlock,
    Protocol,
    ServiceBackend,
    TrafficProfile,
    TrafficRule,
)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12))), st.integers(1, 20), st.integers(1, 20))
def test_the_bound_holds_and_the_last_that_fits_is_kept(
    puts: list[tuple[int, int]], weight_max: int, one_max: int
) -> None:
    cache: WeighedCache[int, int] = WeighedCache(weight_max, min(one_max, weight_max))
    for key, weight in puts:
        cache.put("a", key, weight, weight)
        assert (cache.get(key) is not None) == (weight <= min(one_max, weight_max))
        kept = [found for each in range(6) if (found := cache.get(each)) is not None]
        assert sum(kept) == cache.weight <= weight_max


def test_what_is_used_outlasts_what_is_not() -> None:
    cache: WeighedCache[str, str] = WeighedCache(2)
    for name in ("a", "b", "c"):
        cache.put("owner", name, name.upper(), 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, "B", "C")
    cache = WeighedCache(2)
    cache.put("owner", "used", "U", 1)
    for name in ("a", "b", "c", "d"):
        assert cache.get("used") == "U"
        cache.put("owner", name, name.upper(), 1)
    assert (cache.get("used"), cache.get("d"), cache.get("c")) == ("U", "D", None)


def test_an_owner_that_fills_it_loses_its_own() -> None:
    cache: WeighedCache[str, str] = WeighedCache(100, 10)
    cache.put("quiet", "seldom used", "Q", 10)
    for number in range(200):
        cache.put("loud", f"loud-{number}", "L", 3)
        assert cache.get(f"loud-{number}") == "L"
    assert cache.get("seldom used") == "Q"


def test_a_key_stays_its_first_owners() -> None:
    """Else one who puts the same could take it over, and drop it among its own."""
    cache: WeighedCache[str, str] = WeighedCache(100, 10)
    cache.put("quiet", "both", "B", 10)
    cache.put("loud", "both", "B", 10)
    for number in range(200):
        cache.put("loud", f"loud-{number}", "L", 10)
    assert cache.get("both") == "B"


def test_what_nobody_uses_goes_with_time() -> None:
    now = 0.0
    cache: WeighedCache[str, str] = WeighedCache(100, clock=lambda: now)
    cache.put("gone", "unused", "U", 1)
    now = IDLE_SECONDS + 1
    for number in range(2):
        cache.put("working", f"{number}", "W", 1)
    assert cache.get("unused") is None and cache.weight == 2


SUPPLIES = supply.Supplies()


def sets_of_backends(number: int) -> object:
    backends = tuple(
        ServiceBackend(ip_address(f"10.{number}.{index // 256}.{index % 256}"), 80) for index in range(2_000)
    )
    return services.compile_services(
        [DataplaneService(5, ip_address("172.20.0.1"), 80, Protocol.TCP, backends)]
    )


def profiles(number: int) -> object:
    blocks = tuple(
        PrefixBlock(IPv4Network((f"10.{number}.{index // 256}.{index % 256}", 32))) for index in range(2_000)
    )
    return policies.compile_profile(TrafficProfile((TrafficRule(blocks),)))


def networks(number: int) -> object:
    body = b'{"spec":{"type":"flat"},"metadata":{"annotations":{"a":"%b"}}}' % (b"x" * 200_000)
    key = Key(NETWORKS, TenantId("acme"), "", f"n{number}")
    return SUPPLIES.of(CacheEntry(key, Revision(number), body))


def indexed_values(number: int) -> object:
    return plane_mirror._shared(((f"{number}" * 200_000,),))


@pytest.mark.parametrize(
    ("module", "bound", "use"),
    [
        (services, "_kept_sets", sets_of_backends),
        (policies, "_kept", profiles),
        (supply, None, networks),
        (plane_mirror, None, indexed_values),
    ],
    ids=["backends", "policies", "networks", "indexes"],
)
def test_large_states_that_come_and_go_are_not_kept(
    module: object, bound: str | None, use: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant that changes a large object again and again fills no process' memory with its old states."""
    if bound is not None:
        monkeypatch.setattr(module, bound, WeighedCache(5_000))
    tracemalloc.start()
    try:
        for number in range(5):
            use(number)
        gc.collect()
        few = tracemalloc.get_traced_memory()[0]
        for number in range(5, 15):
            use(number)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < few + 500_000
    finally:
        tracemalloc.stop()
