"""Leases: durations and transitions, and the strategy of coordinated election."""

import pytest

from alcove.api.kinds.coordination import STRATEGIES
from alcove.api.objects import Object

CASES: list[tuple[Object, list[str]]] = [
    ({}, []),
    ({"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0}, []),
    ({"leaseDurationSeconds": 0}, ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
    ({"leaseTransitions": -1}, [
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]),
    ({"strategy": "OldestEmulationVersion", "preferredHolder": "b"}, []),
    ({"strategy": "example.com/mine"}, []),
    ({"strategy": "Newest"}, [
        'spec.strategy: Unsupported value: "Newest": supported values: "OldestEmulationVersion"']),
    ({"preferredHolder": "b"}, [
        "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_validate(spec: Object, expected: list[str]) -> None:
    lease = {"metadata": {"name": "leader"}, "spec": spec}
    assert [str(error) for error in STRATEGIES["leases"].validate(lease)] == expected


def test_put_creates_but_needs_a_revision_to_replace() -> None:
    assert STRATEGIES["leases"].create_on_update
    assert not STRATEGIES["leases"].unconditional_update
