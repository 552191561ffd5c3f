"""Limits the recommended size by stabilization windows, scaling policies and min/max replicas. Pure.

Recommendations are kept for the longest possible stabilization window, scaling steps for the longest
possible policy period.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from alcove.api.objects import Object

DOWN_WINDOW_SECONDS = 300.0
PERIOD_SECONDS_MAX = 1800.0
WINDOW_SECONDS_MAX = 3600.0
UP_FACTOR, UP_LEAST = 2, 4
"""Without a behavior, one step at most doubles the size or raises it to four."""


_Choice = Callable[[Sequence[int]], int]


class ScalingHistory(Struct):
    """Recommendations and scaling steps of one autoscaler, as (time, number of replicas)."""

    recommended: list[tuple[float, int]] = field(default_factory=list)
    added: list[tuple[float, int]] = field(default_factory=list)
    removed: list[tuple[float, int]] = field(default_factory=list)

    def forget(self, now: float) -> None:
        self.recommended = [each for each in self.recommended if each[0] > now - WINDOW_SECONDS_MAX]
        self.added = [each for each in self.added if each[0] > now - PERIOD_SECONDS_MAX]
        self.removed = [each for each in self.removed if each[0] > now - PERIOD_SECONDS_MAX]

    def changed(self, before: int, after: int, now: float) -> None:
        (self.added if after > before else self.removed).append((now, abs(after - before)))


class ConditionReason(Struct, frozen=True):
    reason: str
    message: str


READY = ConditionReason("ReadyForNewScale", "recommended size matches current size")
DOWN_STABILIZED = ConditionReason(
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
UP_STABILIZED = ConditionReason(
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
WITHIN = ConditionReason("DesiredWithinRange", "the desired count is within the acceptable range")
TOO_FEW = ConditionReason(
    "TooFewReplicas", "the desired replica count is less than the minimum replica count"
)
TOO_MANY = ConditionReason(
    "TooManyReplicas", "the desired replica count is more than the maximum replica count"
)
UP_LIMIT = ConditionReason(
    "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"
)
DOWN_LIMIT = ConditionReason(
    "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"
)


class LimitedReplicas(Struct, frozen=True):
    replicas: int
    able: ConditionReason
    limit: ConditionReason
    is_limited: bool


class ReplicaBounds(Struct, frozen=True):
    least: int
    most: int


def limited(
    recommended_now: int,
    current: int,
    bounds: ReplicaBounds,
    behavior: Object | None,
    history: ScalingHistory,
    now: float,
) -> LimitedReplicas:
    """Applies all limits to the recommendation, and records it in `history`."""
    history.forget(now)
    steady = _stabilized(recommended_now, current, behavior, history, now)
    history.recommended.append((now, recommended_now))
    able = READY
    if steady != recommended_now:
        is_up = behavior is not None and recommended_now >= current
        able = UP_STABILIZED if is_up else DOWN_STABILIZED
    if behavior is None:
        desired, limit = _by_default(steady, current, bounds)
    else:
        desired, limit = _by_behavior(steady, current, bounds, behavior, history, now)
    return LimitedReplicas(desired, able, limit, desired != steady)


def _stabilized(
    recommended_now: int, current: int, behavior: Object | None, history: ScalingHistory, now: float
) -> int:
    def recent(seconds: float) -> list[int]:
        return [count for time, count in history.recommended if time > now - seconds]

    if behavior is None:
        return max([recommended_now, *recent(DOWN_WINDOW_SECONDS)])
    up = min([recommended_now, *recent(_window(behavior.get("scaleUp") or {}, 0.0))])
    down = max([recommended_now, *recent(_window(behavior.get("scaleDown") or {}, DOWN_WINDOW_SECONDS))])
    return min(max(current, up), down)


def _window(rules: Object, default: float) -> float:
    seconds = rules.get("stabilizationWindowSeconds")
    return default if seconds is None else float(seconds)


def _by_default(steady: int, current: int, bounds: ReplicaBounds) -> tuple[int, ConditionReason]:
    fastest = max(UP_FACTOR * current, UP_LEAST)
    if steady < bounds.least:
        return bounds.least, TOO_FEW
    if steady > min(bounds.most, fastest):
        return (fastest, UP_LIMIT) if bounds.most > fastest else (bounds.most, TOO_MANY)
    return steady, WITHIN


def _by_behavior(
    steady: int, current: int, bounds: ReplicaBounds, behavior: Object, history: ScalingHistory, now: float
) -> tuple[int, ConditionReason]:
    if steady > current:
        limit = max(up_limit(current, behavior.get("scaleUp") or {}, history, now), current)
        if steady > min(bounds.most, limit):
            return (limit, UP_LIMIT) if bounds.most > limit else (bounds.most, TOO_MANY)
    elif steady < current:
        limit = min(down_limit(current, behavior.get("scaleDown") or {}, history, now), current)
        if steady < max(bounds.least, limit):
            return (limit, DOWN_LIMIT) if bounds.least < limit else (bounds.least, TOO_FEW)
    return steady, WITHIN


def up_limit(current: int, rules: Object, history: ScalingHistory, now: float) -> int:
    """The largest size that the policies allow now."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    limits = []
    for policy in rules.get("policies") or ():
        before = _before(current, policy, history, now)
        if policy["type"] == "Pods":
            limits.append(before + int(policy["value"]))
        else:
            limits.append(math.ceil(before * (100 + int(policy["value"])) / 100))
    return _selected(rules, limits, current, min, max)


def down_limit(current: int, rules: Object, history: ScalingHistory, now: float) -> int:
    """The smallest size that the policies allow now."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    limits = []
    for policy in rules.get("policies") or ():
        before = _before(current, policy, history, now)
        if policy["type"] == "Pods":
            limits.append(before - int(policy["value"]))
        else:
            limits.append(before * (100 - int(policy["value"])) // 100)
    return _selected(rules, limits, current, max, min)


def _selected(rules: Object, limits: Sequence[int], current: int, smallest: _Choice, largest: _Choice) -> int:
    """The limit of the policy that allows the smallest (Min) or the largest change (Max, the default)."""
    if not limits:
        return current
    return (smallest if rules.get("selectPolicy") == "Min" else largest)(limits)


def _before(current: int, policy: Object, history: ScalingHistory, now: float) -> int:
    """The number of replicas at the beginning of the policy's period."""
    since = now - float(policy["periodSeconds"])
    added = sum(count for time, count in history.added if time > since)
    removed = sum(count for time, count in history.removed if time > since)
    return current - added + removed
