"""Nodes as arrays: slots, their reuse, labels as columns, journals of changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alcove.scheduler.arrays import EVERY
from alcove.scheduler.label_columns import LabelColumn
from alcove.scheduler.nodes import NodeFacts, read_node
from alcove.scheduler.slotcounts import SlotCounts
from alcove.scheduler.snapshot import JOURNAL_MAX, Journal, NodeSnapshot
from alcove.testing.scheduling import node


def _facts(name: str, **labels: str) -> NodeFacts:
    return read_node(node(name, labels))


def test_a_slot_is_given_to_the_next_node_and_keeps_nothing() -> None:
    nodes = NodeSnapshot()
    nodes.put(read_node(node("old", {"disk": "ssd"}, taints=["a=b:NoSchedule"], gpu="4", images={"i": 1})))
    slot = nodes.slots["old"]
    nodes.remove("old")
    nodes.put(_facts("new"))
    assert nodes.slots == {"new": slot}
    assert nodes.labels.get("disk") is None
    assert nodes.taints.get(slot) == ()
    assert nodes.allocatable[nodes.rows["example.com/gpu"], slot] == 0
    assert not nodes.images


def test_thousands_of_nodes_keep_their_slots_as_the_arrays_grow() -> None:
    nodes = NodeSnapshot()
    for number in range(3000):
        nodes.put(_facts(f"n{number}", rack=str(number % 7)))
    assert nodes.count == 3000
    assert nodes.size < 3000 * 1.13 + 64
    assert all(nodes.name(slot) == name for name, slot in nodes.slots.items())
    column = nodes.labels.get("rack")
    assert column is not None
    chosen = column.is_any_of(["3"], EVERY)
    assert int(chosen.sum()) == len([number for number in range(3000) if number % 7 == 3])
    assert nodes.capacity("cpu") == 3000 * 4000


def test_a_node_that_says_nonsense_has_nothing() -> None:
    broken = node("n", cpu="many", memory="-5Gi")
    facts = read_node(broken)
    assert facts.allocatable == {"memory": 0, "pods": 110}


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["", "a", "b", "c", "10", "-3"])), max_size=60))
def test_column_has_what_was_put_last(puts: list[tuple[int, str]]) -> None:
    column, truth = LabelColumn(8), dict.fromkeys(range(8), "")
    for slot, value in puts:
        truth[slot] = value
        if value:
            column.put(slot, value)
        else:
            column.drop(slot)
    for value in ("a", "b", "c", "10"):
        assert column.is_any_of([value], EVERY).tolist() == [truth[slot] == value for slot in range(8)]
    assert column.is_any_of(["a", "c"], EVERY).tolist() == [truth[slot] in ("a", "c") for slot in range(8)]
    positive = column.is_number(lambda number: number > 0, EVERY)
    assert positive.tolist() == [truth[slot] == "10" for slot in range(8)]
    assert column.is_unused == (not any(truth.values()))
    # Ids are used again: never more than there were different values at once.
    assert column.size <= 6


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(-3, 3)), max_size=120), st.integers(1, 40))
def test_counts_are_sums_however_they_are_kept(adds: list[tuple[int, int]], read_every: int) -> None:
    counts, truth = SlotCounts(), [0] * 100
    for number, (slot, amount) in enumerate(adds):
        counts.add(slot, amount)
        truth[slot] += amount
        if number % read_every == 0:
            assert counts.vector(100).tolist() == truth
    assert counts.vector(100).tolist() == truth
    assert dict(counts.items()) == {slot: total for slot, total in enumerate(truth) if total}
    assert bool(counts) == any(truth)
    assert counts.vector(130).tolist() == truth + [0] * 30
    assert [counts.get(slot) for slot in range(130)] == truth + [0] * 30


def test_journal_returns_what_changed_or_none_if_it_is_too_old() -> None:
    journal = Journal()
    start = journal.position
    journal.note(3)
    journal.note(5)
    assert journal.since(start) == [3, 5]
    assert journal.since(journal.position) == []
    for slot in range(JOURNAL_MAX + 1):
        journal.note(slot)
    assert journal.since(start) is None
    assert journal.since(journal.position - 2) == [JOURNAL_MAX - 1, JOURNAL_MAX]
