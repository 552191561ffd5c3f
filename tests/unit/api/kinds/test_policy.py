"""Disruption budgets: counts or percentages, one of them, and a status that adds up."""

import pytest

from alcove.api.kinds.policy import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["poddisruptionbudgets"]
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
CASES: list[tuple[Object, list[str]]] = [
    ({}, []),
    ({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}, []),
    ({"maxUnavailable": "100%"}, []),
    ({"minAvailable": 1, "maxUnavailable": 1}, [
        'spec: Invalid value: {"minAvailable":1,"maxUnavailable":1}: minAvailable and maxUnavailable cannot be both set']),
    ({"minAvailable": -1}, ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"]),
    ({"minAvailable": "101%"}, ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%']),
    ({"maxUnavailable": "some"}, [f'spec.maxUnavailable: Invalid value: "some": {PERCENT}']),
    ({"maxUnavailable": "-1%"}, [f'spec.maxUnavailable: Invalid value: "-1%": {PERCENT}']),
    ({"unhealthyPodEvictionPolicy": "Never"}, [
        'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"']),
    ({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, [
        "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_validate(spec: Object, expected: list[str]) -> None:
    assert [str(error) for error in STRATEGY.validate({"spec": spec})] == expected


def test_status() -> None:
    condition = {"type": "A", "status": "Yes", "reason": "1", "observedGeneration": -1}
    new = {"status": {"disruptionsAllowed": -1, "conditions": [condition, {**condition, "reason": ""}]}}
    messages = [str(error) for error in STRATEGY.validate_status(new, {})]
    assert (
        messages[0]
        == 'status.conditions[0].status: Unsupported value: "Yes": supported values: "False", "True", "Unknown"'
    )
    assert (
        messages[1]
        == "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero"
    )
    assert messages[2] == "status.conditions[0].lastTransitionTime: Required value"
    assert messages[3].startswith(
        'status.conditions[0].reason: Invalid value: "1": a condition reason must start with'
    )
    assert messages[4] == 'status.conditions[1].type: Duplicate value: "A"'
    assert "status.conditions[1].reason: Required value" in messages
    assert messages[-1] == "status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0"
