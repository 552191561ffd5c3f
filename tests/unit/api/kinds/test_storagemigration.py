"""Migrations of stored objects: what may be asked, and how a migration ends."""

import pytest

from alcove.api.kinds.storagemigration import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["storageversionmigrations"]
BOTH = "status.conditions: Invalid value: Both success and failed conditions cannot be true at the same time"


def migration(*true: str, version: str = "", **resource: str) -> Object:
    conditions = [
        {"type": kind, "status": "True", "reason": "R", "lastTransitionTime": "2027-01-15T08:00:00Z"}
        for kind in true
    ]
    status = {"conditions": conditions, **({"resourceVersion": version} if version else {})}
    return {"metadata": {"name": "m"}, "spec": {"resource": resource}, "status": status}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (migration(resource="secrets"), []),
        (migration(resource="widgets", group="example.com"), []),
        (migration(), ["spec.resource.resource: Required value: resource is required to be set"]),
        (migration(resource="UPPER"), ["spec.resource.resource"]),
        (migration(resource="widgets", group="A"), ["spec.resource.group"]),
    ],
)
def test_a_resource_is_named(obj: Object, expected: list[str]) -> None:
    found = [str(error) for error in STRATEGY.validate(obj)]
    assert len(found) == len(expected)
    assert all(error.startswith(start) for error, start in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (migration("Running", version="7"), migration(), ""),
        (migration("Succeeded", version="7"), migration("Running", version="7"), ""),
        (migration("Succeeded", "Failed"), migration(), BOTH),
        (migration("Running"), migration("Succeeded"), "Success condition cannot be set to false"),
        (migration("Running"), migration("Failed"), "Failed condition cannot be set to false"),
        (migration(version="8"), migration(version="7"), "field is immutable"),
        (migration(version="seven"), migration(), "not well formed"),
    ],
)
def test_a_migration_ends_once(new: Object, old: Object, expected: str) -> None:
    errors = " ".join(str(error) for error in STRATEGY.validate_status(new, old))
    assert expected in errors if expected else errors == ""


def test_the_resource_stays() -> None:
    assert STRATEGY.validate_update(migration(resource="secrets"), migration(resource="pods"))
