"""Candidates for node ports: the same for the same owner, and all in the range."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.node_ports import PORTS
from alcove.vpc.node_ports import _candidates


@given(st.text(max_size=40))
def test_candidates_are_of_the_range_and_the_same_again(seed: str) -> None:
    first = list(islice(_candidates(seed), 8))
    assert all(port in PORTS for port in first)
    assert first == list(islice(_candidates(seed), 8))


def test_owners_spread_over_the_range() -> None:
    drawn = {next(_candidates(f"uid-{n}/80/TCP")) for n in range(500)}
    assert len(drawn) > 400
