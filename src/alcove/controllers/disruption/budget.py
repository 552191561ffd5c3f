"""A disruption budget's status, computed from the pods that it selects. Pure.

With each eviction the API server decrements `disruptionsAllowed` and adds the pod to `disruptedPods`. A pod
in that list counts as disrupted until its deletion is observed, or for NOTED_SECONDS if it is not deleted.
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
    """The expected number of pods. `problem` is a message if it cannot be determined."""

    expected: int = 0
    problem: str = ""


def needs_scale(budget: Object) -> bool:
    """Whether the budget depends on the size of the pods' controllers, not only on the existing pods."""
    spec = budget.get("spec") or {}
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def desired(budget: Object, expected: int) -> int:
    spec = budget.get("spec") or {}
    if (max_unavailable := spec.get("maxUnavailable")) is not None:
        return max(0, expected - _resolve_percentage(max_unavailable, expected))
    return _resolve_percentage(spec.get("minAvailable", 0), expected)


def _resolve_percentage(value: int | str, whole: int) -> int:
    """Percentages are rounded up."""
    return value if isinstance(value, int) else math.ceil(whole * int(value.removesuffix("%")) / 100)


def pending_disruptions(budget: Object, covered: Sequence[Object], now: float) -> dict[str, str]:
    """The entries of `disruptedPods` that stay: evicted pods whose deletion has not been observed yet."""
    pods_by_name = {pod["metadata"]["name"]: pod for pod in covered}
    disrupted: dict[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    return {
        name: since
        for name, since in disrupted.items()
        if name in pods_by_name
        and not pods.is_terminating(pods_by_name[name])
        and now - meta.parse_time(since) < NOTED_SECONDS
    }


def next_check_seconds(disrupted: dict[str, str], now: float) -> float | None:
    """Seconds until the oldest entry of `disruptedPods` expires. None if there is none."""
    remaining = [meta.parse_time(since) + NOTED_SECONDS - now for since in disrupted.values()]
    return max(0.0, min(remaining)) + 1.0 if remaining else None


def status(budget: Object, covered: Sequence[Object], count: ExpectedPods, now: float) -> Object:
    """The whole new status; equal to the old one if nothing changed."""
    disrupted = pending_disruptions(budget, covered, now)
    healthy = sum(
        1
        for pod in covered
        if pods.is_ready(pod) and not pods.is_terminating(pod) and pod["metadata"]["name"] not in disrupted
    )
    desired_healthy = desired(budget, count.expected)
    allowed = max(0, healthy - desired_healthy) if count.expected > 0 and not count.problem else 0
    old = budget.get("status") or {}
    new: Object = {
        "currentHealthy": healthy,
        "desiredHealthy": desired_healthy,
        "disruptionsAllowed": allowed,
        "expectedPods": count.expected,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "conditions": _conditions(budget, old.get("conditions") or (), count.problem, allowed, now),
    }
    return new | ({"disruptedPods": disrupted} if disrupted else {})


def _conditions(
    budget: Object, existing: Sequence[Object], problem: str, allowed: int, now: float
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
    old = next((each for each in existing if each["type"] == ALLOWED), None)
    if old is not None and old.get("status") == entry["status"]:
        entry["lastTransitionTime"] = old["lastTransitionTime"]
    return [*(each for each in existing if each["type"] != ALLOWED), entry]
