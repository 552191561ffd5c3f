"""When the API server of a dedicated tenant runs."""

import pytest

from alcove.api import meta
from alcove.api.kinds.core.plane_sleep import is_stopped, must_run
from alcove.api.objects import Object

NOW = meta.parse_time("2026-11-18T12:00:00Z")


def tenant(
    *,
    asleep: bool = True,
    since_seconds: float = 10,
    reason: str = "Ready",
    asked_seconds_ago: float | None = None,
    **metadata: str,
) -> Object:
    conditions = [
        {
            "type": "Asleep",
            "status": "True" if asleep else "False",
            "lastTransitionTime": meta.format_time(NOW - since_seconds),
        },
        {"type": "APIServerReady", "status": "True", "reason": reason},
    ]
    plane = (
        {} if asked_seconds_ago is None else {"lastRequestTime": meta.format_time(NOW - asked_seconds_ago)}
    )
    return {"metadata": metadata, "status": {"conditions": conditions, "controlPlane": plane}}


@pytest.mark.parametrize(
    ("obj", "has_pods", "expected"),
    [
        ({"metadata": {}}, False, True),
        (tenant(asleep=False), False, True),
        (tenant(asleep=False, reason="Asleep"), False, True),
        (tenant(), False, False),
        (tenant(), True, True),
        (tenant(), None, True),
        # Pods that do not end, because of the tenant's finalizers.
        (tenant(since_seconds=1000), True, False),
        # A pod that was bound at the last moment has to end too.
        (tenant(reason="Asleep"), True, True),
        # The controllers have restarted, and cannot join what is stopped.
        (tenant(reason="Asleep"), None, False),
        (tenant(reason="Waking"), None, True),
        (tenant(reason="Asleep", asked_seconds_ago=10), False, True),
        (tenant(asked_seconds_ago=10), False, True),
        (tenant(asked_seconds_ago=400), False, False),
        # Its objects are deleted on its plane.
        (tenant(reason="Asleep", deletionTimestamp="2026-11-18T11:00:00Z"), False, True),
    ],
)
def test_an_api_server_runs_while_somebody_needs_it(
    obj: Object, has_pods: bool | None, expected: bool
) -> None:
    assert must_run(obj, NOW, has_pods=has_pods) is expected


def test_nothing_is_sent_to_an_api_server_that_is_asleep_or_waking() -> None:
    assert [is_stopped(tenant(reason=each)) for each in ("Ready", "NotReady", "Asleep", "Waking")] == [
        False,
        False,
        True,
        True,
    ]
    assert not is_stopped({"metadata": {}})
