"""Sets of completion indexes, in their text form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.kinds.batch import indexes

SETS = st.sets(st.integers(0, 60), max_size=20)


def text_of(chosen: set[int]) -> str:
    parts: list[list[int]] = []
    for number in sorted(chosen):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


@given(SETS, SETS)
def test_indexes_are_sets(some: set[int], others: set[int]) -> None:
    one, other = indexes.parse(text_of(some), 61), indexes.parse(text_of(others), 61)
    assert indexes.count(one) == len(some)
    assert indexes.overlap(one, other) == (min(some & others) if some & others else None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-2-3", "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'"),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("1-", 'cannot convert string to integer for index: ""'),
        ("3,2", "non-increasing order, previous: 3, current: 2"),
        ("1-3,3", "non-increasing order, previous: 3, current: 3"),
        ("10", 'too large index: "10"'),
    ],
)  # fmt: skip
def test_what_is_no_set_of_indexes(text: str, message: str) -> None:
    with pytest.raises(indexes.IndexesError) as refused:
        indexes.parse(text, 10)
    assert str(refused.value) == message
