"""Runtime classes: a handler that stays, overhead, where pods may go."""

import pytest

from alcove.api.kinds.node import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["runtimeclasses"]
TOLERATION = {"key": "k", "operator": "Exists"}
CASES: list[tuple[Object, list[str]]] = [
    ({"handler": "runsc"}, []),
    ({"handler": "runsc", "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}}}, []),
    ({}, ["handler: Required value"]),
    ({"handler": "run.sc"}, ['handler: Invalid value: "run.sc": must not contain dots']),
    ({"handler": "runsc", "overhead": {"podFixed": {"cpu": "-1"}}}, [
        'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    ({"handler": "runsc", "scheduling": {"tolerations": [TOLERATION, TOLERATION]}}, [
        'scheduling.tolerations[1]: Duplicate value: {"key":"k","operator":"Exists"}']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), CASES)
def test_validate(obj: Object, expected: list[str]) -> None:
    STRATEGY.default(obj)
    assert [str(error) for error in STRATEGY.validate(obj)] == expected


def test_node_selector_and_tolerations() -> None:
    scheduling = {"nodeSelector": {"a b": "c"}, "tolerations": [{"operator": "Equal"}]}
    errors = STRATEGY.validate({"handler": "runsc", "scheduling": scheduling})
    assert [error.field for error in errors] == [
        "scheduling.nodeSelector",
        "scheduling.tolerations[0].operator",
    ]


def test_handler_stays() -> None:
    [error] = STRATEGY.validate_update({"handler": "kata"}, {"handler": "runsc"})
    assert str(error) == 'handler: Invalid value: "kata": field is immutable'
