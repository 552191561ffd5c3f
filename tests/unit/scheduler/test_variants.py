"""Values of many slots, kept once each: what was put last is there, and nothing else is kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from alcove.scheduler.arrays import EVERY, rows_of
from alcove.scheduler.nodes import read_node
from alcove.scheduler.variants import Variants
from alcove.testing.scheduling import Scene, node, pod

SLOTS = 8


@given(st.lists(st.tuples(st.integers(0, SLOTS - 1), st.sampled_from(["", "a", "b", "c", "d"])), max_size=60))
def test_slots_have_what_was_put_last(puts: list[tuple[int, str]]) -> None:
    variants: Variants[str] = Variants("")
    variants.grow(SLOTS // 2)
    variants.grow(SLOTS)
    expected = [""] * SLOTS
    for slot, value in puts:
        variants.put(slot, value)
        expected[slot] = value
    assert [variants.get(slot) for slot in range(SLOTS)] == expected
    assert len(variants) == len({"", *expected})
    for value in "abcd":
        found = variants.test(lambda each, value=value: each == value, EVERY)  # type: ignore[misc]
        assert found.tolist() == [each == value for each in expected]
    lengths = variants.count(len, rows_of([0, 3]))
    assert np.array_equal(lengths, [len(expected[0]), len(expected[3])])


def test_nodes_whose_taints_change_all_the_time_leave_nothing_behind() -> None:
    scene = Scene(node("steady"), node("flapping"))
    for number in range(1000):
        changed = node("flapping", taints=[f"draining=since-{number}:NoSchedule"], handlers=[f"h{number}"])
        scene.cache.put_node(read_node(changed))
    assert len(scene.cache.nodes.taints) == len(scene.cache.nodes.handlers) == 2
    assert scene.feasible(pod("p")) == {"steady"}
    scene.cache.put_node(read_node(node("flapping")))
    assert scene.feasible(pod("p")) == {"steady", "flapping"}
