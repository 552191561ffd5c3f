"""Which taints a toleration covers."""

import pytest

from alcove.api.objects import Object
from alcove.api.tolerations import is_tolerated, read_taints, read_tolerations


@pytest.mark.parametrize(
    ("toleration", "taint", "is_covered"),
    [
        ({"key": "a", "value": "x"}, {"key": "a", "value": "x", "effect": "NoSchedule"}, True),
        (
            {"key": "a", "operator": "Equal", "value": "y"},
            {"key": "a", "value": "x", "effect": "NoSchedule"},
            False,
        ),
        ({"key": "a", "operator": "Exists"}, {"key": "a", "value": "x", "effect": "NoExecute"}, True),
        ({"key": "b", "operator": "Exists"}, {"key": "a", "effect": "NoExecute"}, False),
        (
            {"key": "a", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "a", "effect": "NoExecute"},
            False,
        ),
        ({"operator": "Exists"}, {"key": "a", "value": "x", "effect": "NoExecute"}, True),
        (
            {"key": "a", "operator": "Gt", "value": "1"},
            {"key": "a", "value": "2", "effect": "NoSchedule"},
            False,
        ),
        ({"key": "a", "value": None}, {"key": "a", "value": None, "effect": "NoSchedule"}, True),
    ],
)
def test_a_toleration_covers_a_taint(toleration: Object, taint: Object, is_covered: bool) -> None:
    assert is_tolerated(read_taints([taint])[0], read_tolerations([toleration])) is is_covered
