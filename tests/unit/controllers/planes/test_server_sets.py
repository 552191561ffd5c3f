"""The order in which the API servers of a plane are replaced."""

import pytest

from alcove.controllers.planes.server_sets import ServerState, next_to_replace

OLD = ServerState(is_current=False, is_ready=True, is_settled=False)
OLD_DOWN = ServerState(is_current=False, is_ready=False, is_settled=False)
STARTING = ServerState(is_current=True, is_ready=False, is_settled=False)
LEAVING = ServerState(is_current=True, is_ready=True, is_settled=False)
"""Its StatefulSet is new, and its pod is still the old one."""
NEW = ServerState(is_current=True, is_ready=True, is_settled=True)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([OLD, OLD, OLD], 0),
        ([LEAVING, OLD, OLD], -1),
        ([STARTING, OLD, OLD], -1),
        ([NEW, OLD, OLD], 1),
        ([NEW, OLD, OLD_DOWN], -1),
        ([NEW, NEW, OLD], 2),
        ([NEW, NEW, NEW], -1),
        ([OLD], 0),
    ],
)
def test_one_after_the_other_while_all_others_are_ready(states: list[ServerState], expected: int) -> None:
    assert next_to_replace(states) == expected
