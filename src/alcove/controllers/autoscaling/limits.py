"""From what the metrics ask for to the size that is set: stabilization, speed, and the bounds. Pure.

What was asked for before is remembered for as long as the longest window; what was changed, for as long as
the longest period of a policy.
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
"""Without a behavior: at most twice as many, or four."""


_Choice = Callable[[Sequence[int]], int]


class ScalingHistory(Struct):
    """Of one autoscaler: (when, how many)."""

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
    asked: int, current: int, bounds: ReplicaBounds, behavior: Object | None, past: ScalingHistory, now: float
) -> LimitedReplicas:
    """Notes in `past` what was asked."""
    past.forget(now)
    steady = _stabilized(asked, current, behavior, past, now)
    past.recommended.append((now, asked))
    able = READY
    if steady != asked:
        is_up = behavior is not None and asked >= current
        able = UP_STABILIZED if is_up else DOWN_STABILIZED
    if behavior is None:
        desired, limit = _by_default(steady, current, bounds)
    else:
        desired, limit = _by_behavior(steady, current, bounds, behavior, past, now)
    return LimitedReplicas(desired, able, limit, desired != steady)


def _stabilized(asked: int, current: int, behavior: Object | None, past: ScalingHistory, now: float) -> int:
    def recent(seconds: float) -> list[int]:
        return [count for when, count in past.recommended if when > now - seconds]

    if behavior is None:
        return max([asked, *recent(DOWN_WINDOW_SECONDS)])
    up = min([asked, *recent(_window(behavior.get("scaleUp") or {}, 0.0))])
    down = max([asked, *recent(_window(behavior.get("scaleDown") or {}, DOWN_WINDOW_SECONDS))])
    return min(max(current, up), down)


def _window(rules: Object, otherwise: float) -> float:
    seconds = rules.get("stabilizationWindowSeconds")
    return otherwise if seconds is None else float(seconds)


def _by_default(steady: int, current: int, bounds: ReplicaBounds) -> tuple[int, ConditionReason]:
    fastest = max(UP_FACTOR * current, UP_LEAST)
    if steady < bounds.least:
        return bounds.least, TOO_FEW
    if steady > min(bounds.most, fastest):
        return (fastest, UP_LIMIT) if bounds.most > fastest else (bounds.most, TOO_MANY)
    return steady, WITHIN


def _by_behavior(
    steady: int, current: int, bounds: ReplicaBounds, behavior: Object, past: ScalingHistory, now: float
) -> tuple[int, ConditionReason]:
    if steady > current:
        limit = max(up_limit(current, behavior.get("scaleUp") or {}, past, now), current)
        if steady > min(bounds.most, limit):
            return (limit, UP_LIMIT) if bounds.most > limit else (bounds.most, TOO_MANY)
    elif steady < current:
        limit = min(down_limit(current, behavior.get("scaleDown") or {}, past, now), current)
        if steady < max(bounds.least, limit):
            return (limit, DOWN_LIMIT) if bounds.least < limit else (bounds.least, TOO_FEW)
    return steady, WITHIN


def up_limit(current: int, rules: Object, past: ScalingHistory, now: float) -> int:
    """The most that the policies allow by now."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    found = []
    for policy in rules.get("policies") or ():
        before = _before(current, policy, past, now)
        if policy["type"] == "Pods":
            found.append(before + int(policy["value"]))
        else:
            found.append(math.ceil(before * (100 + int(policy["value"])) / 100))
    return _selected(rules, found, current, min, max)


def down_limit(current: int, rules: Object, past: ScalingHistory, now: float) -> int:
    """The least that the policies allow by now."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    found = []
    for policy in rules.get("policies") or ():
        before = _before(current, policy, past, now)
        if policy["type"] == "Pods":
            found.append(before - int(policy["value"]))
        else:
            found.append(before * (100 - int(policy["value"])) // 100)
    return _selected(rules, found, current, max, min)


def _selected(rules: Object, found: Sequence[int], current: int, smallest: _Choice, largest: _Choice) -> int:
    """The policy that changes least (Min) or most (Max, the default)."""
    if not found:
        return current
    return (smallest if rules.get("selectPolicy") == "Min" else largest)(found)


def _before(current: int, policy: Object, past: ScalingHistory, now: float) -> int:
    """How many there were when the policy's period began."""
    since = now - float(policy["periodSeconds"])
    added = sum(count for when, count in past.added if when > since)
    removed = sum(count for when, count in past.removed if when > since)
    return current - added + removed
