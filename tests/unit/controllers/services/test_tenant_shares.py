"""A tenant may hold as much of a pool as is still free, and everybody gets something."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.controllers.services.tenant_shares import (
    BALANCERS,
    NODE_PORTS,
    NODE_PORTS_PER_TENANT_MAX,
    PoolUse,
    ShareExceeded,
    check_limit,
    check_share,
    node_port_limit,
    pool_and_tenant,
)


def may_have(size: int, held: list[int], tenant: int) -> bool:
    try:
        check_share(PoolUse(BALANCERS, held[tenant], size - sum(held)), 1)
    except ShareExceeded:
        return False
    return sum(held) < size


@given(st.integers(1, 60), st.lists(st.integers(0, 3), max_size=200))
def test_whoever_comes_gets_one_as_long_as_the_greedy_are_few(size: int, turns: list[int]) -> None:
    """Whatever four tenants take, in whatever order: one that has none gets one, if the pool has sixteen."""
    held = [0] * 5
    for tenant in turns:
        if may_have(size, held, tenant):
            held[tenant] += 1
    assert sum(held) <= size
    if size >= 16:
        assert may_have(size, held, 4)


def test_one_alone_gets_half_and_is_told_what_it_has() -> None:
    check_share(PoolUse(NODE_PORTS, 4, 6), 1)
    with pytest.raises(ShareExceeded) as caught:
        check_share(PoolUse(NODE_PORTS, 5, 5), 1)
    assert str(caught.value) == (
        "exceeded quota: tenant share, requested: services.nodeports=1, used: services.nodeports=5, "
        "limited: services.nodeports=5"
    )


def test_the_limit_is_ring0s_to_change() -> None:
    assert node_port_limit(None) == NODE_PORTS_PER_TENANT_MAX
    assert node_port_limit({"spec": {"quota": {"hard": {"pods": "3"}}}}) == NODE_PORTS_PER_TENANT_MAX
    assert node_port_limit({"spec": {"quota": {"hard": {"services.nodeports": "1k"}}}}) == 1000
    check_limit(NODE_PORTS, 2, 8, 10)
    check_limit(NODE_PORTS, 0, 12, 10)
    with pytest.raises(ShareExceeded):
        check_limit(NODE_PORTS, 3, 8, 10)


def test_what_is_held_is_found_by_pool_and_tenant() -> None:
    port = {"metadata": {"name": "port-30080-tcp"}, "spec": {"type": "door", "pod": "red/default/web"}}
    address = {
        "metadata": {"name": "7-192.0.2.7"},
        "spec": {"type": "door", "net": "out", "pod": "red/d/web"},
    }
    assert list(pool_and_tenant(port)) == ["TCP", "TCP/red"]
    assert list(pool_and_tenant(address)) == ["out", "out/red"]
    assert (
        list(pool_and_tenant({"metadata": {"name": "x"}, "spec": {"type": "simple", "pod": "red/d/w"}})) == []
    )
