"""Requests that have to be written to the Tenant, and those that are written already."""

from typing import Any

import pytest

from alcove.api import meta
from alcove.api.objects import Object
from alcove.apiserver.activity import is_due, is_plane_due

NOW = meta.parse_time("2026-11-18T12:00:00Z")


def tenant(*, asleep: bool, reason: str = "Ready", spec: Any = None, **status: Any) -> Object:
    conditions = [
        {"type": "Asleep", "status": "True" if asleep else "False"},
        {"type": "APIServerReady", "reason": reason},
    ]
    return {"metadata": {}, "spec": spec or {}, "status": {"conditions": conditions, **status}}


def asked(seconds_ago: float) -> Object:
    return {"lastRequestTime": meta.format_time(NOW - seconds_ago)}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (tenant(asleep=False), False),
        (tenant(asleep=True), True),
        (tenant(asleep=True, reason="Asleep"), True),
        # The API server runs: now and then is enough.
        (tenant(asleep=True, controlPlane=asked(10)), False),
        (tenant(asleep=True, controlPlane=asked(40)), True),
        (tenant(asleep=True, reason="Waking", controlPlane=asked(10)), False),
        # It was stopped since: it has to start.
        (tenant(asleep=True, reason="Asleep", controlPlane=asked(10)), True),
    ],
)
def test_a_request_starts_a_stopped_api_server_and_keeps_it_running(obj: Object, expected: bool) -> None:
    assert is_plane_due(obj, NOW) is expected


def test_activity_is_written_rarely_but_soon_if_it_wakes() -> None:
    sleep = {"sleep": {"afterInactivity": "10m"}}
    written = meta.format_time(NOW - 10)
    assert not is_due(tenant(asleep=True), NOW)
    assert is_due(tenant(asleep=False, spec=sleep), NOW)
    assert not is_due(tenant(asleep=False, spec=sleep, lastActivityTime=written), NOW)
    assert is_due(tenant(asleep=True, spec=sleep, lastActivityTime=written), NOW)
