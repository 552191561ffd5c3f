"""References to variables, by a table."""

import pytest

from alcove.agent.runtime.expand import environment, expand


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(A)$$(A)$$", "1$(A)$"),
        ("$($(A))", "$(1)"),
    ],
)
def test_references(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


def test_variables_refer_to_earlier_ones_only() -> None:
    pairs = [("A", "$(B)"), ("B", "b"), ("C", "$(A)-$(B)"), ("B", "late")]
    assert environment(pairs) == {"A": "$(B)", "B": "late", "C": "$(B)-b"}
