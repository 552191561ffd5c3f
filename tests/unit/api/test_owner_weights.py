"""Who has most is known, whatever is added and taken away."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.owner_weights import _OUTDATED, OwnerWeights

OWNERS = ("a", "b", "c", "d")


@given(st.lists(st.tuples(st.sampled_from(OWNERS), st.integers(-8, 8)), max_size=300))
def test_the_heaviest_is_the_one_with_most(changes: list[tuple[str, int]]) -> None:
    weights: OwnerWeights[str] = OwnerWeights()
    expected = dict.fromkeys(OWNERS, 0)
    for owner, wanted in changes:
        change = max(wanted, -expected[owner])
        expected[owner] += change
        weights.add(owner, change)
        assert weights.total == sum(expected.values())
        assert {each: weights.of(each) for each in OWNERS} == expected
        if weights.total:
            assert expected[weights.heaviest()] == max(expected.values())


def test_what_is_outdated_does_not_pile_up() -> None:
    weights: OwnerWeights[str] = OwnerWeights()
    for _ in range(10_000):
        for owner in OWNERS:
            weights.add(owner, 3)
            weights.add(owner, -2)
    assert len(weights._heap) <= 2 * len(OWNERS) + _OUTDATED + 1
