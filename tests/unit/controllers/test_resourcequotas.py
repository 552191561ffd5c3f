"""Resource quotas whose status a client has written."""

import pytest

from alcove.api.objects import Object
from alcove.controllers.resourcequotas import is_true

LIMITS = {"cpu": "1", "pods": "3"}


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({"spec": {"hard": LIMITS}, "status": {"hard": dict(LIMITS), "used": {"cpu": "1"}}}, True),
        ({"spec": {"hard": LIMITS}, "status": {"hard": {"cpu": "2", "pods": "3"}}}, False),
        ({"spec": {"hard": LIMITS}, "status": {"hard": {"cpu": "1"}}}, False),
        ({"spec": {"hard": LIMITS}}, False),
        ({"spec": {}, "status": {"hard": {}, "used": {}}}, True),
        ({"spec": {}}, True),
    ],
)
def test_a_status_is_true_if_it_shows_the_limits(quota: Object, expected: bool) -> None:
    assert is_true(quota) is expected
