"""Whether a tenant sleeps: by request, by schedule, after inactivity."""

from typing import Any

import pytest

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.sleep.plan import decide, latest_activity

HOUR = 3600.0
WEDNESDAY = meta.parse_time("2026-11-18T00:00:00Z")
NIGHTS = {"sleep": "0 20 * * 1-5", "wake": "0 6 * * 1-5"}


def tenant(activity: float | None = None, **sleep: Any) -> Object:
    status = {} if activity is None else {"lastActivityTime": at(activity)}
    return {"metadata": {"name": "acme"}, "spec": {"sleep": sleep}, "status": status}


def at(hour: float) -> str:
    return meta.format_time(WEDNESDAY + hour * HOUR)


@pytest.mark.parametrize(
    ("obj", "hour", "asleep", "reason", "next_hour"),
    [
        (tenant(), 12, False, "Awake", None),
        (tenant(asleep=True), 12, True, "Requested", None),
        (tenant(asleep=True, wakeTime=at(11), schedule=NIGHTS), 12, True, "Requested", None),
        (tenant(schedule=NIGHTS), 5, True, "Schedule", 6),
        (tenant(schedule=NIGHTS), 6, False, "Schedule", 20),
        (tenant(schedule=NIGHTS), 12, False, "Schedule", 20),
        (tenant(schedule=NIGHTS), 20, True, "Schedule", 24 + 6),
        (tenant(schedule=NIGHTS), 4 * 24, True, "Schedule", 5 * 24 + 6),  # Sunday
        (tenant(schedule={**NIGHTS, "timeZone": "Asia/Tokyo"}), 12, True, "Schedule", 21),
        (tenant(schedule={"sleep": "0 0 30 2 *"}), 12, False, "Awake", None),  # Never.
        # Woken by hand at night: until the next evening.
        (tenant(schedule=NIGHTS, wakeTime=at(2)), 3, False, "Woken", 6),
        (tenant(schedule=NIGHTS, wakeTime=at(2)), 20.5, True, "Schedule", 24 + 6),
        (tenant(schedule=NIGHTS, wakeTime=at(4)), 3, True, "Schedule", 4),
        # Inactivity.
        (tenant(afterInactivity="2h"), 12, False, "Awake", None),
        (tenant(10, afterInactivity="2h"), 11, False, "Active", 12),
        (tenant(10, afterInactivity="2h"), 12, True, "Inactivity", None),
        (tenant(10, afterInactivity="2h", wakeTime=at(13)), 14, False, "Woken", 15),
        (tenant(10, afterInactivity="2h", wakeTime=at(13)), 15, True, "Inactivity", None),
        # A clock that was ahead keeps nobody awake for longer.
        (tenant(100, afterInactivity="2h"), 12, False, "Active", 14),
        # A request at night wakes, and its end of activity puts to sleep again.
        (tenant(3, afterInactivity="1h", schedule=NIGHTS), 3.5, False, "Active", 4),
        (tenant(3, afterInactivity="1h", schedule=NIGHTS), 4, True, "Inactivity", 6),
    ],
)
def test_the_latest_event_decides(
    obj: Object, hour: float, asleep: bool, reason: str, next_hour: float | None
) -> None:
    decision = decide(obj, WEDNESDAY + hour * HOUR)
    assert (decision.is_asleep, decision.reason) == (asleep, reason)
    expected = None if next_hour is None else WEDNESDAY + next_hour * HOUR
    assert decision.next_change == expected


def test_one_whose_volumes_are_to_be_read_before_its_deletion_is_awake() -> None:
    obj = tenant(asleep=True)
    obj["spec"] |= {"backup": {"to": "/b", "volumes": True}, "backupBeforeDelete": True}
    assert decide(obj, WEDNESDAY).is_asleep
    obj["metadata"]["deletionTimestamp"] = at(0)
    assert not decide(obj, WEDNESDAY).is_asleep


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ({}, at(10)),
        ({"lastActivityTime": at(9)}, at(10)),
        ({"lastActivityTime": at(10.01)}, at(10)),  # Too soon to be written again.
        ({"lastActivityTime": at(11)}, at(11)),
        ({"lastActivityTime": at(1000)}, at(12)),
        ({"lastActivityTime": "soon"}, at(10)),
        ({"lastActivityTime": 5}, at(10)),
    ],
)
def test_what_a_dedicated_plane_says_of_its_users_counts_until_now(claimed: Object, expected: str) -> None:
    on_plane = {"metadata": {"name": "acme"}, "status": claimed}
    found = latest_activity(tenant(10, afterInactivity="2h"), on_plane, WEDNESDAY + 12 * HOUR)
    assert found == expected
