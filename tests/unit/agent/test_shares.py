"""Max-min fair shares: by example, and by their law."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.shares import Pool, fair_share, over_share, shares

amounts = st.lists(st.integers(0, 50), max_size=8)


def test_small_wishes_are_fulfilled_and_the_rest_is_divided() -> None:
    assert fair_share([100, 100, 2], 10) == 4
    assert fair_share([3, 3], 10) == 10
    assert fair_share([], 10) == 10
    assert fair_share([1] * 20, 10) == 0


@given(amounts, st.integers(0, 100))
def test_no_larger_share_would_do(wanted: list[int], capacity: int) -> None:
    share = fair_share(wanted, capacity)
    assert sum(min(each, share) for each in wanted) <= capacity
    if any(each > share for each in wanted):
        assert sum(min(each, share + 1) for each in wanted) > capacity


@given(amounts, st.integers(0, 100), st.integers(0, 30))
def test_nobody_loses_by_anothers_greed_what_an_equal_part_covers(
    wanted: list[int], capacity: int, mine: int
) -> None:
    """Whoever wants no more than an equal part of the pool gets it, whatever the others want."""
    [share] = shares([(each,) for each in (*wanted, mine)], [Pool(capacity, 30)])
    if mine <= capacity // (len(wanted) + 1):
        assert share >= mine
    assert share <= 30


def test_the_first_that_fit_are_kept() -> None:
    requests = {"old": (6, 0), "large": (9, 0), "doors": (1, 9), "small": (2, 1)}
    assert over_share(requests, (10, 3)) == {"large", "doors"}
    assert over_share(requests, (100, 100)) == frozenset()
