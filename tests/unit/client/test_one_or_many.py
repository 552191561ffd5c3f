"""Sets of one or many elements, against dictionaries."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.client import one_or_many


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans())))
def test_it_has_what_was_added_and_not_removed(steps: list[tuple[int, bool]]) -> None:
    found: int | dict[int, None] | None = None
    model: dict[int, None] = {}
    for element, removes in steps:
        if removes:
            found = one_or_many.removed(found, element)
            model.pop(element, None)
        else:
            found = one_or_many.added(found, element)
            model[element] = None
        assert list(one_or_many.each(found)) == list(model)
        assert (found is None) == (not model)
