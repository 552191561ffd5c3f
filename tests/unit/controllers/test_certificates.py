"""When certificate requests are deleted."""

from typing import Any

import pytest

from alcove.controllers.certificates import (
    PENDING_SECONDS_MAX,
    POD_REQUEST_SECONDS_MAX,
    SETTLED_SECONDS_MAX,
    pod_request_removal_time,
    removal_time,
)

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


def test_a_pods_request_is_deleted_whether_it_was_answered_or_not() -> None:
    for conditions in ([], [{"type": "Issued", "status": "True", "lastTransitionTime": LATER}]):
        request = {"metadata": {"creationTimestamp": MADE}, "status": {"conditions": conditions}}
        assert pod_request_removal_time(request) == EPOCH + POD_REQUEST_SECONDS_MAX
