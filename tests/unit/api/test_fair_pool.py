"""Whoever fills a pool loses its own items; what nobody uses goes with time."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.fair_pool import FairPool

NEVER = float("inf")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(1, 9)), max_size=100),
    st.integers(9, 60),
)
def test_an_owner_within_an_equal_part_loses_nothing(adds: list[tuple[str, int, int]], bound: int) -> None:
    pool: FairPool[tuple[str, int]] = FairPool(bound, NEVER)
    kept: dict[tuple[str, int], int] = {}
    for owner, number, weight in adds:
        item = (owner, number)
        kept.pop(item, None)
        kept[item] = weight
        for gone in pool.add(owner, item, weight):
            of_owner = sum(each for (one, _), each in kept.items() if one == gone[0])
            assert of_owner == max(
                sum(each for (one, _), each in kept.items() if one == other) for other in "abc"
            )
            assert of_owner * 3 > bound
            assert gone == next(one for one in kept if one[0] == gone[0]) or gone == item
            del kept[gone]
        assert pool.weight == sum(kept.values()) <= bound


def test_a_tenant_that_fills_it_evicts_its_own() -> None:
    pool: FairPool[str] = FairPool(100, NEVER)
    for number in range(5):
        assert pool.add("quiet", f"quiet-{number}", 1) == []
    gone = [each for number in range(1_000) for each in pool.add("loud", f"loud-{number}", 1)]
    assert gone == [f"loud-{number}" for number in range(905)]
    # What it has is given up for those who have less.
    assert pool.add("third", "third", 40) == [f"loud-{number}" for number in range(905, 945)]


def test_what_is_used_outlasts_what_is_not() -> None:
    used: set[str] = set()

    def was_used(item: str) -> bool:
        is_used = item in used
        used.discard(item)
        return is_used

    pool: FairPool[str] = FairPool(3, NEVER, was_used)
    for item in ("one", "two", "three"):
        pool.add("a", item, 1)
    used.add("one")
    assert pool.add("a", "four", 1) == ["two"]
    assert pool.add("a", "five", 1) == ["three"]
    assert pool.add("a", "six", 1) == ["four"]
    assert pool.add("a", "seven", 1) == ["one"], "it was not used again"


def test_what_idle_tenants_left_does_not_stay() -> None:
    """They have little, so that they would never be those with most: a thousand of them would leave nothing for who works."""
    now = 0.0
    pool: FairPool[str] = FairPool(1_000, 60.0, clock=lambda: now)
    for number in range(999):
        pool.add(f"gone-{number}", "item", 1)
    now = 61.0
    for number in range(600):
        pool.add("working", f"item-{number}", 1)
    assert pool.weight == 600
    assert [each for each in pool._owned if each != "working"] == []


def test_what_is_used_does_not_age() -> None:
    now = 0.0
    pool: FairPool[str] = FairPool(1_000, 60.0, lambda item: item == "used", clock=lambda: now)
    pool.add("quiet", "used", 1)
    pool.add("quiet", "unused", 1)
    gone = []
    for _ in range(5):
        now += 61.0
        gone += pool.add("other", "item", 1)
    assert gone == ["unused"]
