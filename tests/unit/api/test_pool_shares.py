"""A tenant may hold as much of a pool as is still free, and everybody gets something."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.node_ports import RESOURCE
from alcove.api.pool_shares import PoolUse, limit_exceeded, share_exceeded


def may_have(size: int, held: list[int], tenant: int) -> bool:
    use = PoolUse(RESOURCE, held[tenant], size - sum(held))
    return not share_exceeded(use, 1) and sum(held) < size


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
    assert share_exceeded(PoolUse(RESOURCE, 4, 6), 1) == ""
    assert share_exceeded(PoolUse(RESOURCE, 5, 5), 1) == (
        "exceeded quota: tenant share, requested: services.nodeports=1, used: services.nodeports=5, "
        "limited: services.nodeports=5"
    )


def test_what_is_held_beyond_a_lowered_limit_stays() -> None:
    assert limit_exceeded(RESOURCE, 2, 8, 10) == ""
    assert limit_exceeded(RESOURCE, 0, 12, 10) == ""
    assert limit_exceeded(RESOURCE, 3, 8, 10)
