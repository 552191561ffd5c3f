"""Names of an instance's objects."""

import pytest

from alcove.dataplane.instance import checked, handle_of, port_links

NAMES = ("a", "ap", "ag", "ag1", "b", "A")


def test_names_with_a_common_prefix_are_distinguished() -> None:
    links = [f"{name}{rest}" for name in NAMES for rest in ("p0123456789", "g1068")]
    for name in NAMES:
        assert [one for one in links if port_links(name).fullmatch(one)] == [
            f"{name}p0123456789",
            f"{name}g1068",
        ]


def test_each_has_a_handle_of_its_own() -> None:
    assert len({handle_of(name) for name in NAMES}) == len(NAMES)
    assert all(0 < handle_of(name) < 2**32 for name in (*NAMES, "zzzz"))


@pytest.mark.parametrize("name", ["", "five5", "a-b", "a/b", "a b", "ä"])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="letters and digits"):
        checked(name)
