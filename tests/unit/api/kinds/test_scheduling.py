"""Priority classes: defaults, the system's own names, what may not change."""

import pytest

from alcove.api.kinds.scheduling import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["priorityclasses"]
RESERVED = "priority class names with 'system-' prefix are reserved for system use only. error: "


def priority_class(name: str, value: int, **fields: object) -> Object:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never", **fields}


CASES: list[tuple[Object, list[str]]] = [
    (priority_class("high", 1_000_000_000), []),
    (priority_class("low", -2_147_483_648), []),
    (priority_class("high", 1_000_000_001), [
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]),
    (priority_class("system-node-critical", 2_000_001_000), []),
    (priority_class("system-node-critical", 2_000_000_000), [
        f"metadata.name: Forbidden: {RESERVED}value of system-node-critical PriorityClass must be 2000001000"]),
    (priority_class("system-cluster-critical", 2_000_000_000, globalDefault=True), [
        f"metadata.name: Forbidden: {RESERVED}globalDefault of system-cluster-critical PriorityClass must be false"]),
    (priority_class("system-mine", 1), [
        f"metadata.name: Forbidden: {RESERVED}system-mine is not a known system priority class"]),
    (priority_class("p", 1, preemptionPolicy="Sometimes"), [
        'preemptionPolicy: Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"']),
    (priority_class("p", 1, preemptionPolicy=""), ["preemptionPolicy: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), CASES)
def test_validate(obj: Object, expected: list[str]) -> None:
    assert [str(error) for error in STRATEGY.validate(obj)] == expected


def test_preemption_is_the_default() -> None:
    obj: Object = {"metadata": {"name": "p"}, "value": 1}
    STRATEGY.default(obj)
    assert obj["preemptionPolicy"] == "PreemptLowerPriority"


def test_value_and_preemption_stay() -> None:
    old, new = priority_class("p", 1), priority_class("p", 2, preemptionPolicy="PreemptLowerPriority")
    assert [str(error) for error in STRATEGY.validate_update(new, old)] == [
        "value: Forbidden: may not be changed in an update.",
        'preemptionPolicy: Invalid value: "PreemptLowerPriority": field is immutable',
    ]
    assert not STRATEGY.validate_update({**old, "description": "new"}, old)
