"""When certificate requests are deleted."""

from typing import Any

import pytest

from alcove.controllers.certificates import PENDING_SECONDS_MAX, SETTLED_SECONDS_MAX, removal_time

MADE = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T01:00:00Z"
EPOCH = 1_767_225_600.0


@pytest.mark.parametrize(
    ("conditions", "seconds"),
    [
        ([], PENDING_SECONDS_MAX),
        ([{"type": "Approved", "lastUpdateTime": LATER}], 3_600 + SETTLED_SECONDS_MAX),
        ([{"type": "Denied"}], SETTLED_SECONDS_MAX),
        ([{"type": "Approved"}, {"type": "Failed", "lastUpdateTime": LATER}], 3_600 + SETTLED_SECONDS_MAX),
    ],
)
def test_when_a_certificate_request_may_be_deleted(conditions: list[Any], seconds: float) -> None:
    request = {"metadata": {"creationTimestamp": MADE}, "status": {"conditions": conditions}}
    assert removal_time(request) == EPOCH + seconds
