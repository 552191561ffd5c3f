"""When finished jobs are deleted."""

from typing import Any

import pytest

from alcove.controllers.ttl import expiry_time

MADE = "2026-01-01T00:00:00Z"
EPOCH = 1_767_225_600.0


@pytest.mark.parametrize(
    ("ttl", "conditions", "expected"),
    [
        (None, [{"type": "Complete", "status": "True", "lastTransitionTime": MADE}], None),
        (60, [], None),
        (60, [{"type": "Complete", "status": "False", "lastTransitionTime": MADE}], None),
        (60, [{"type": "Complete", "status": "True", "lastTransitionTime": MADE}], EPOCH + 60),
        (0, [{"type": "Failed", "status": "True", "lastTransitionTime": MADE}], EPOCH),
        (60, [{"type": "Suspended", "status": "True", "lastTransitionTime": MADE}], None),
    ],
)
def test_when_a_finished_job_is_deleted(
    ttl: int | None, conditions: list[Any], expected: float | None
) -> None:
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    assert expiry_time({"spec": spec, "status": {"conditions": conditions}}) == expected
