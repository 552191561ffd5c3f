"""The difference of two states is small, complete, and ordered so that nothing refers to missing entries."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.dataplane.apply import KEY_ONLY, difference
from alcove.dataplane.desired import Entries
from alcove.dataplane.maps import MapName

few = st.sampled_from([MapName.SERVICES, MapName.BACKENDS, MapName.PORTS, MapName.BUCKETS, MapName.ENDPOINTS])
tables = st.dictionaries(
    few, st.dictionaries(st.binary(min_size=1, max_size=1), st.binary(min_size=1, max_size=1))
)


@given(tables, tables)
def test_applied_it_leads_from_held_to_wanted(wanted: Entries, held: Entries) -> None:
    result = {name: dict(held.get(name, {})) for name in MapName}
    for change in difference(wanted, held):
        result[change.name].update(change.puts)
        for key in change.deletes:
            del result[change.name][key]
    for name in MapName:
        if name in KEY_ONLY:
            assert set(result[name]) == set(wanted.get(name, {}))
        else:
            assert result[name] == wanted.get(name, {})


@given(tables)
def test_nothing_to_do_is_nothing(state: Entries) -> None:
    assert difference(state, state) == []


def test_additions_come_first_in_order_and_removals_last_in_reverse() -> None:
    wanted: Entries = {name: {b"new": b"1"} for name in MapName}
    held: Entries = {name: {b"old": b"1"} for name in MapName}
    changes = difference(wanted, held)
    names = list(MapName)
    assert [change.name for change in changes] == names + names[::-1]
    assert all(change.puts for change in changes[: len(names)])
    assert all(change.deletes for change in changes[len(names) :])


def test_what_is_referred_to_comes_before_what_refers() -> None:
    order = {name: position for position, name in enumerate(MapName)}
    for before, after in (
        (MapName.BACKENDS, MapName.SERVICES),
        (MapName.MEMBERS, MapName.SERVICES),
        (MapName.POLICY_RULES, MapName.POLICY_PEERS),
        (MapName.POLICY_PEERS, MapName.PORTS),
        (MapName.POLICY_PEERS, MapName.ENDPOINTS),
        (MapName.NODES, MapName.ENDPOINTS),
        (MapName.NODES, MapName.ROUTES),
        (MapName.FORBIDDEN, MapName.ROUTES),
        (MapName.BUCKETS, MapName.PORTS),
    ):
        assert order[before] < order[after]


def test_a_bucket_the_kernel_filled_is_left_alone() -> None:
    assert difference({MapName.BUCKETS: {b"k": b"0"}}, {MapName.BUCKETS: {b"k": b"9"}}) == []
