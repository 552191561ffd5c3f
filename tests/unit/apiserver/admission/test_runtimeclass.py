"""Tolerations of a runtime class are merged with the pod's: none is lost, none is duplicated."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from alcove.apiserver.admission.runtimeclass import covers, merged

KEYS, VALUES = ("", "a", "b"), ("", "x", "y")
EFFECTS = ("", "NoSchedule", "NoExecute")


@st.composite
def tolerations(draw: st.DrawFn) -> dict[str, Any]:
    given: dict[str, Any] = {
        "key": draw(st.sampled_from(KEYS)),
        "operator": draw(st.sampled_from(("Exists", "Equal"))),
        "effect": draw(st.sampled_from(EFFECTS)),
    }
    if given["operator"] == "Equal":
        given["value"] = draw(st.sampled_from(VALUES))
    if draw(st.booleans()):
        given["tolerationSeconds"] = draw(st.integers(0, 3))
    return given


@given(st.lists(tolerations(), max_size=5), st.lists(tolerations(), max_size=5))
def test_every_toleration_is_covered_by_one_that_stays(
    first: list[dict[str, Any]], second: list[dict[str, Any]]
) -> None:
    kept = merged(first, second)
    for each in (*first, *second):
        assert any(covers(other, each) for other in kept)
    for index, each in enumerate(kept):
        assert not any(covers(other, each) for other in kept[:index])


def test_exists_without_a_key_covers_everything() -> None:
    assert covers({"operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "x"})
    assert not covers({"key": "a", "operator": "Equal", "value": "x"}, {"operator": "Exists"})
    short = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    assert not covers(short, {"key": "a", "operator": "Exists", "effect": "NoExecute"})
