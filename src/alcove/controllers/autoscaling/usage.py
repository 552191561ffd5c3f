"""How many pods the use of a resource asks for. Pure.

Pods that are starting, or of which nothing is known, never make a wrong step bigger: going up they count
as using nothing, going down as using all that they should.

| pod                                             | counts                       |
|-------------------------------------------------|------------------------------|
| being deleted, or failed                        | not at all                   |
| pending, or (CPU) not yet ready, or just started | as starting                 |
| without a figure                                | as unknown                   |
| others                                          | as they are                  |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.controllers.autoscaling.samples import MetricsUnavailable, Samples
from alcove.controllers.workloads import pods

CPU_STARTING_SECONDS = 300.0
READINESS_DELAY_SECONDS = 30.0
TOLERANCE = 0.1
UNREADY_FALLBACK_PERCENT = 100


class Tolerance(Struct, frozen=True):
    """How far from its target a use may be without a step."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def covers(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Recommendation(Struct, frozen=True):
    replicas: int
    percent: int | None
    """The use as a share of what was asked for; None where that is not the target."""
    average_milli: int


class _Groups(Struct):
    ready: int
    starting: set[str]
    unknown: set[str]
    ignored: set[str]


def _group(found: Sequence[Object], samples: Samples, resource: str, now: float) -> _Groups:
    groups = _Groups(0, set(), set(), set())
    for pod in found:
        name = pod["metadata"]["name"]
        if pods.is_ending(pod) or pods.phase(pod) == "Failed":
            groups.ignored.add(name)
        elif pods.phase(pod) == "Pending":
            groups.starting.add(name)
        elif name not in samples:
            groups.unknown.add(name)
        elif resource == "cpu" and _is_starting(pod, samples, now):
            groups.starting.add(name)
        else:
            groups.ready += 1
    return groups


def _is_starting(pod: Object, samples: Samples, now: float) -> bool:
    ready, began = pods.condition(pod, "Ready"), get(pod, "status", "startTime")
    if ready is None or not began or not ready.get("lastTransitionTime"):
        return True
    started, changed = meta.parse_time(began), meta.parse_time(ready["lastTransitionTime"])
    if started + CPU_STARTING_SECONDS > now:
        # What was measured before it was ready is the work of starting.
        sample = samples[pod["metadata"]["name"]]
        return ready["status"] == "False" or sample.time < changed + sample.window_seconds
    return ready["status"] == "False" and started + READINESS_DELAY_SECONDS > changed


class MetricTarget(Struct, frozen=True):
    """What use is aimed at: a share of the pods' requests, or an amount for each pod."""

    percent: int | None = None
    requests: Mapping[str, int] = {}
    milli: int = 0

    def ratio(self, figures: Mapping[str, int]) -> tuple[float, int | None, int]:
        """(use by target, share in percent, average)"""
        if self.percent is None:
            average = sum(figures.values()) // len(figures)
            return average / self.milli, None, average
        known = [name for name in figures if name in self.requests]
        asked = sum(self.requests[name] for name in known)
        if not asked:
            raise MetricsUnavailable("no metrics returned matched known pods")
        used = sum(figures[name] for name in known)
        share = used * 100 // asked
        return share / self.percent, share, used // len(known)

    def full(self, pod: str) -> int:
        """What a pod would use that uses all it should."""
        if self.percent is None:
            return self.milli
        return self.requests.get(pod, 0) * max(UNREADY_FALLBACK_PERCENT, self.percent) // 100


def replicas(
    current: int,
    found: Sequence[Object],
    samples: Samples,
    resource: str,
    target: MetricTarget,
    tolerance: Tolerance,
    now: float,
) -> Recommendation:
    """Raises Unknown."""
    if not found:
        raise MetricsUnavailable("no pods returned by selector while calculating replica count")
    groups = _group(found, samples, resource, now)
    left_out = groups.ignored | groups.starting
    figures = {name: sample.milli for name, sample in samples.items() if name not in left_out}
    if not figures:
        raise MetricsUnavailable("did not receive metrics for targeted pods (pods might be unready)")
    ratio, percent, average = target.ratio(figures)
    with_starting = bool(groups.starting) and ratio > 1.0
    if not with_starting and not groups.unknown:
        stays = tolerance.covers(ratio)
        return Recommendation(current if stays else math.ceil(ratio * groups.ready), percent, average)
    figures |= _guessed(groups, target, ratio, with_starting)
    new_ratio, _, _ = target.ratio(figures)
    return Recommendation(_cautious(current, ratio, new_ratio, len(figures), tolerance), percent, average)


def _guessed(groups: _Groups, target: MetricTarget, ratio: float, with_starting: bool) -> dict[str, int]:
    guessed: dict[str, int] = {}
    if ratio < 1.0:
        guessed = {name: target.full(name) for name in groups.unknown}
    elif ratio > 1.0:
        guessed = dict.fromkeys(groups.unknown, 0)
    if with_starting:
        guessed |= dict.fromkeys(groups.starting, 0)
    return guessed


def _cautious(current: int, ratio: float, new_ratio: float, count: int, tolerance: Tolerance) -> int:
    """No step where the guesses turned its direction."""
    turned = (ratio < 1.0 < new_ratio) or (new_ratio < 1.0 < ratio)
    if turned or tolerance.covers(new_ratio):
        return current
    desired = math.ceil(new_ratio * count)
    if (new_ratio < 1.0 and desired > current) or (new_ratio > 1.0 and desired < current):
        return current
    return desired
