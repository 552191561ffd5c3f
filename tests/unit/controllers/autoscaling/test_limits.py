"""Windows, policies and bounds."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.controllers.autoscaling import limits
from alcove.controllers.autoscaling.limits import ReplicaBounds, ScalingHistory, limited

NOW = 10_000.0
WIDE = ReplicaBounds(1, 1000)


def rules(*policies: tuple[str, int, int], select: str = "Max", window: int | None = 0) -> Object:
    given: Object = {
        "selectPolicy": select,
        "policies": [
            {"type": kind, "value": value, "periodSeconds": period} for kind, value, period in policies
        ],
    }
    return given if window is None else {**given, "stabilizationWindowSeconds": window}


@pytest.mark.parametrize(
    ("asked", "current", "bounds", "size", "reason", "is_limited"),
    [
        (5, 4, WIDE, 5, "DesiredWithinRange", False),
        (30, 4, WIDE, 8, "ScaleUpLimit", True),
        (30, 1, WIDE, 4, "ScaleUpLimit", True),
        (30, 20, ReplicaBounds(1, 25), 25, "TooManyReplicas", True),
        (8, 4, ReplicaBounds(1, 6), 6, "TooManyReplicas", True),
        (1, 4, ReplicaBounds(3, 10), 3, "TooFewReplicas", True),
        (0, 4, WIDE, 1, "TooFewReplicas", True),
        (2, 4, WIDE, 2, "DesiredWithinRange", False),
    ],
)
def test_without_a_behavior(
    asked: int, current: int, bounds: ReplicaBounds, size: int, reason: str, is_limited: bool
) -> None:
    found = limited(asked, current, bounds, None, ScalingHistory(), NOW)
    assert (found.replicas, found.limit.reason, found.is_limited) == (size, reason, is_limited)
    assert found.able == limits.READY


def test_down_only_to_what_was_asked_in_five_minutes() -> None:
    past = ScalingHistory()
    sizes = []
    for minute, asked in enumerate([10, 4, 6, 3, 3, 3, 3, 3, 3, 3]):
        found = limited(asked, 10, WIDE, None, past, NOW + 60 * minute)
        sizes.append(found.replicas)
    assert sizes == [10, 10, 10, 10, 10, 6, 6, 3, 3, 3]
    assert limited(2, 10, WIDE, None, past, NOW + 601).able == limits.DOWN_STABILIZED


@pytest.mark.parametrize(
    ("given", "current", "limit"),
    [
        (rules(("Pods", 4, 60)), 10, 14),
        (rules(("Percent", 100, 60)), 10, 20),
        (rules(("Percent", 10, 60)), 1, 2),
        (rules(("Pods", 4, 60), ("Percent", 100, 60)), 3, 7),
        (rules(("Pods", 4, 60), ("Percent", 100, 60), select="Min"), 3, 6),
        (rules(("Pods", 4, 60), select="Disabled"), 10, 10),
        (rules(), 10, 10),
    ],
)
def test_how_far_up(given: Object, current: int, limit: int) -> None:
    assert limits.up_limit(current, given, ScalingHistory(), NOW) == limit
    found = limited(500, current, WIDE, {"scaleUp": given, "scaleDown": rules()}, ScalingHistory(), NOW)
    assert (found.replicas, found.limit) == (limit, limits.UP_LIMIT)


@pytest.mark.parametrize(
    ("given", "current", "limit"),
    [
        (rules(("Pods", 4, 60)), 10, 6),
        (rules(("Percent", 50, 60)), 9, 4),
        (rules(("Percent", 100, 60)), 9, 0),
        (rules(("Pods", 4, 60), ("Percent", 10, 60)), 10, 6),
        (rules(("Pods", 4, 60), ("Percent", 10, 60), select="Min"), 10, 9),
        (rules(("Pods", 4, 60), select="Disabled"), 10, 10),
    ],
)
def test_how_far_down(given: Object, current: int, limit: int) -> None:
    assert limits.down_limit(current, given, ScalingHistory(), NOW) == limit
    found = limited(1, current, WIDE, {"scaleUp": rules(), "scaleDown": given}, ScalingHistory(), NOW)
    assert found.replicas == max(limit, 1)


def test_what_was_changed_counts_for_the_period() -> None:
    given = rules(("Pods", 4, 60))
    past = ScalingHistory()
    past.changed(10, 13, NOW - 30)
    assert limits.up_limit(13, given, past, NOW) == 14
    past.changed(13, 14, NOW - 10)
    assert limits.up_limit(14, given, past, NOW) == 14
    assert limits.up_limit(14, given, past, NOW + 31) == 17
    past.changed(14, 12, NOW)
    assert limits.up_limit(12, given, past, NOW) == 14
    assert limits.down_limit(12, given, past, NOW) == 6


def test_windows_of_a_behavior() -> None:
    def behavior(**windows: Any) -> Object:
        every = ("Percent", 1000, 15)
        return {way: rules(every, window=window) for way, window in windows.items()}

    up = behavior(scaleUp=60, scaleDown=0)
    past = ScalingHistory(recommended=[(NOW - 30, 12), (NOW - 90, 2)])
    found = limited(20, 10, WIDE, up, past, NOW)
    assert (found.replicas, found.able) == (12, limits.UP_STABILIZED)
    down = behavior(scaleUp=0, scaleDown=60)
    found = limited(2, 10, WIDE, down, ScalingHistory(recommended=[(NOW - 30, 7), (NOW - 90, 9)]), NOW)
    assert (found.replicas, found.able) == (7, limits.DOWN_STABILIZED)
    by_default = behavior(scaleUp=0, scaleDown=None)
    assert limited(2, 10, WIDE, by_default, ScalingHistory(recommended=[(NOW - 290, 9)]), NOW).replicas == 9


def test_bounds_come_before_policies() -> None:
    behavior = {"scaleUp": rules(("Percent", 900, 15)), "scaleDown": rules(("Percent", 100, 15))}
    found = limited(90, 10, ReplicaBounds(2, 50), behavior, ScalingHistory(), NOW)
    assert (found.replicas, found.limit, found.is_limited) == (50, limits.TOO_MANY, True)
    found = limited(1, 10, ReplicaBounds(2, 50), behavior, ScalingHistory(), NOW)
    assert (found.replicas, found.limit) == (2, limits.TOO_FEW)
    assert limited(10, 10, ReplicaBounds(2, 50), behavior, ScalingHistory(), NOW).limit == limits.WITHIN


def test_the_past_is_bounded() -> None:
    past = ScalingHistory()
    for number in range(1000):
        limited(3, 3, WIDE, None, past, NOW + 15 * number)
        past.changed(3, 4, NOW + 15 * number)
    assert len(past.recommended) <= 241
    past.forget(NOW + 15 * 1000)
    assert len(past.added) <= 121
