from hypothesis import given
from hypothesis import strategies as st

from alcove.vpc.placement import NOWHERE, place_copies


def by_load(live: frozenset[str], load: dict[str, int]) -> list[str]:
    return sorted(live, key=lambda droplet: (load.get(droplet, 0), droplet))


droplets = st.frozensets(st.sampled_from([f"node-{number}" for number in range(6)]))


@given(
    wanted=st.integers(0, 6),
    placed=st.dictionaries(
        st.integers(0, 8), st.sampled_from([NOWHERE, "node-0", "node-1", "node-2", "gone"])
    ),
    live=droplets,
    load=st.dictionaries(st.sampled_from([f"node-{number}" for number in range(6)]), st.integers(0, 3)),
)
def test_laws(wanted: int, placed: dict[int, str], live: frozenset[str], load: dict[str, int]) -> None:
    found = place_copies(wanted, placed, live, by_load(live, load))
    assert sorted(found) == list(range(wanted))
    used = [droplet for droplet in found.values() if droplet != NOWHERE]
    assert set(used) <= live, "only living droplets"
    assert len(used) == len(set(used)), "no two copies on one droplet"
    assert len(used) == min(wanted, len(live)), "no copy waits while a droplet is free"
    for index, droplet in placed.items():
        if index < wanted and droplet in live and list(placed.values()).count(droplet) == 1:
            assert found[index] == droplet, "who lives stays"
    assert place_copies(wanted, found, live, by_load(live, load)) == found, "nothing moves by itself"


def test_the_least_burdened_come_first() -> None:
    assert place_copies(2, {}, {"a", "b", "c"}, ["b", "c", "a"]) == {0: "b", 1: "c"}


def test_only_as_many_droplets_are_looked_at_as_are_needed() -> None:
    others = iter(["a", "b", "c", "d"])
    assert place_copies(2, {0: "a"}, {"a", "b", "c", "d"}, others) == {0: "a", 1: "b"}
    assert list(others) == ["c", "d"]


def test_a_dead_droplets_copy_moves_and_no_other() -> None:
    assert place_copies(2, {0: "a", 1: "b"}, {"b", "c"}, ["b", "c"]) == {0: "c", 1: "b"}


def test_copies_that_share_a_droplet_part_when_another_comes() -> None:
    assert place_copies(2, {0: "a", 1: "a"}, {"a", "b"}, ["a", "b"]) == {0: "a", 1: "b"}
