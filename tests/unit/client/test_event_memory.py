"""The recorder's tables of written events, whose size is fixed."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.client import event_memory
from alcove.client.event_memory import BURST_PER_OBJECT, REFILL_SECONDS, SLOTS, EventBudget, WrittenEvents


def test_an_object_has_a_burst_and_then_one_now_and_then() -> None:
    budget = EventBudget()
    assert [budget.take("x", 1_000.0) for _ in range(BURST_PER_OBJECT + 2)].count(True) == BURST_PER_OBJECT
    assert budget.take("x", 1_000.0 + REFILL_SECONDS + 1) and not budget.take(
        "x", 1_000.0 + REFILL_SECONDS + 1
    )


def test_a_written_event_is_found_counted_and_evicted() -> None:
    written = WrittenEvents()
    assert written.find("x", 5.0, 600.0) is None
    written.put("x", 5.25)
    slot = written.find("x", 6.0, 600.0)
    assert slot is not None and (written.first(slot), written.count(slot)) == (5.25, 1)
    written.add("x", slot, 500.0)
    assert written.find("x", 1_000.0, 600.0) == slot and written.count(slot) == 2
    assert written.find("x", 1_200.0, 600.0) is None, "written too long ago"
    written.forget("x", slot)
    assert written.find("x", 501.0, 600.0) is None


def test_the_least_recently_written_of_three_entries_in_two_slots_is_evicted() -> None:
    written = WrittenEvents()
    marks = [3, 3 + SLOTS, 3 + 2 * SLOTS]  # An integer is its own hash.
    for time, mark in enumerate(marks, start=1):
        written.put(mark, float(time))
    assert [written.find(mark, 4.0, 600.0) is not None for mark in marks] == [False, True, True]
    assert written.find(marks[0] ^ 1, 4.0, 600.0) is None


@given(st.lists(st.integers(0, 40)))
def test_a_found_entry_always_belongs_to_its_key(marks: list[int]) -> None:
    written, first = WrittenEvents(), dict[int, float]()
    for time, mark in enumerate(marks, start=1):
        slot = written.find(mark * 4_096, float(time), 600.0)
        if slot is None:
            written.put(mark * 4_096, float(time))
            first[mark] = float(time)
        else:
            assert written.first(slot) == first[mark]
            written.add(mark * 4_096, slot, float(time))


def test_the_tables_do_not_grow() -> None:
    written, budget = WrittenEvents(), EventBudget()
    for number in range(4 * SLOTS):
        written.put(("tenant", number), float(number))
        budget.take(("tenant", number), float(number))
    tables = [*vars(written).values(), *vars(budget).values()]
    assert [len(table) for table in tables] == [event_memory.SLOTS] * 6
