"""A disruption budget's status out of the pods it covers. Pure.

The API server takes one off `disruptionsAllowed` and notes the pod in `disruptedPods` with each eviction;
a noted pod counts as gone until it is, or until it is clear that nobody deletes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.workloads import pods

NOTED_SECONDS = 120.0
ALLOWED = "DisruptionAllowed"


class ExpectedPods(Struct, frozen=True):
    """How many pods there should be. `problem` says why nobody knows."""

    expected: int = 0
    problem: str = ""


def needs_scale(budget: Object) -> bool:
    """The budget speaks of a share of the whole, so the whole must be known; else the pods are counted."""
    spec = budget.get("spec") or {}
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def desired(budget: Object, expected: int) -> int:
    spec = budget.get("spec") or {}
    if (most := spec.get("maxUnavailable")) is not None:
        return max(0, expected - _part(most, expected))
    return _part(spec.get("minAvailable", 0), expected)


def _part(value: int | str, whole: int) -> int:
    """Percentages are rounded up."""
    return value if isinstance(value, int) else math.ceil(whole * int(value.removesuffix("%")) / 100)


def noted(budget: Object, covered: Sequence[Object], now: float) -> dict[str, str]:
    """Evicted pods that are still to be seen going."""
    there = {pod["metadata"]["name"]: pod for pod in covered}
    told: dict[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    return {
        name: since
        for name, since in told.items()
        if name in there and not pods.is_ending(there[name]) and now - meta.parse_time(since) < NOTED_SECONDS
    }


def next_look_seconds(disrupted: dict[str, str], now: float) -> float | None:
    """When the oldest note runs out."""
    ends = [meta.parse_time(since) + NOTED_SECONDS - now for since in disrupted.values()]
    return max(0.0, min(ends)) + 1.0 if ends else None


def status(budget: Object, covered: Sequence[Object], count: ExpectedPods, now: float) -> Object:
    """The whole status; equal to the old one where nothing changed."""
    disrupted = noted(budget, covered, now)
    healthy = sum(
        1
        for pod in covered
        if pods.is_ready(pod) and not pods.is_ending(pod) and pod["metadata"]["name"] not in disrupted
    )
    wanted = desired(budget, count.expected)
    allowed = max(0, healthy - wanted) if count.expected > 0 and not count.problem else 0
    old = budget.get("status") or {}
    new: Object = {
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "disruptionsAllowed": allowed,
        "expectedPods": count.expected,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "conditions": _conditions(budget, old.get("conditions") or (), count.problem, allowed, now),
    }
    return new | ({"disruptedPods": disrupted} if disrupted else {})


def _conditions(
    budget: Object, there: Sequence[Object], problem: str, allowed: int, now: float
) -> list[Object]:
    reason = "SyncFailed" if problem else "SufficientPods" if allowed else "InsufficientPods"
    entry: Object = {
        "type": ALLOWED,
        "status": "True" if allowed else "False",
        "reason": reason,
        "message": problem,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": meta.format_time(now),
    }
    old = next((each for each in there if each["type"] == ALLOWED), None)
    if old is not None and old.get("status") == entry["status"]:
        entry["lastTransitionTime"] = old["lastTransitionTime"]
    return [*(each for each in there if each["type"] != ALLOWED), entry]
