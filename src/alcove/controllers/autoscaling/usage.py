"""The number of replicas that the usage of a resource recommends. Pure.

Pods that are starting or have no metrics never enlarge a scaling step: for scaling up they count as using
nothing, for scaling down as using the full target.

| pod                                              | counts as              |
|--------------------------------------------------|------------------------|
| terminating, or failed                           | ignored                |
| pending, or (CPU) not yet ready, or just started | starting               |
| without metrics                                  | unknown                |
| others                                           | measured               |
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
    """How far the usage may be from its target without scaling, as a ratio."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def covers(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Recommendation(Struct, frozen=True):
    replicas: int
    percent: int | None
    """The usage in percent of the requests. None if the target is an average value."""
    average_milli: int


class _Groups(Struct):
    ready: int
    starting: set[str]
    unknown: set[str]
    ignored: set[str]


def _group(selected: Sequence[Object], samples: Samples, resource: str, now: float) -> _Groups:
    groups = _Groups(0, set(), set(), set())
    for pod in selected:
        name = pod["metadata"]["name"]
        if pods.is_terminating(pod) or pods.phase(pod) == "Failed":
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
        # A sample from before the pod was ready measures its start-up.
        sample = samples[pod["metadata"]["name"]]
        return ready["status"] == "False" or sample.time < changed + sample.window_seconds
    return ready["status"] == "False" and started + READINESS_DELAY_SECONDS > changed


class MetricTarget(Struct, frozen=True):
    """The target usage: a percentage of the pods' requests, or an average value per pod."""

    percent: int | None = None
    requests: Mapping[str, int] = {}
    milli: int = 0

    def ratio(self, figures: Mapping[str, int]) -> tuple[float, int | None, int]:
        """(usage divided by target, utilization in percent, average usage)"""
        if self.percent is None:
            average = sum(figures.values()) // len(figures)
            return average / self.milli, None, average
        names = [name for name in figures if name in self.requests]
        requested = sum(self.requests[name] for name in names)
        if not requested:
            raise MetricsUnavailable("no metrics returned matched known pods")
        used = sum(figures[name] for name in names)
        percent = used * 100 // requested
        return percent / self.percent, percent, used // len(names)

    def full(self, pod: str) -> int:
        """The usage of a pod that uses its full target."""
        if self.percent is None:
            return self.milli
        return self.requests.get(pod, 0) * max(UNREADY_FALLBACK_PERCENT, self.percent) // 100


def replicas(
    current: int,
    selected: Sequence[Object],
    samples: Samples,
    resource: str,
    target: MetricTarget,
    tolerance: Tolerance,
    now: float,
) -> Recommendation:
    """Raises MetricsUnavailable."""
    if not selected:
        raise MetricsUnavailable("no pods returned by selector while calculating replica count")
    groups = _group(selected, samples, resource, now)
    excluded = groups.ignored | groups.starting
    figures = {name: sample.milli for name, sample in samples.items() if name not in excluded}
    if not figures:
        raise MetricsUnavailable("did not receive metrics for targeted pods (pods might be unready)")
    ratio, percent, average = target.ratio(figures)
    with_starting = bool(groups.starting) and ratio > 1.0
    if not with_starting and not groups.unknown:
        stays = tolerance.covers(ratio)
        return Recommendation(current if stays else math.ceil(ratio * groups.ready), percent, average)
    figures |= _assumed(groups, target, ratio, with_starting)
    new_ratio, _, _ = target.ratio(figures)
    return Recommendation(_cautious(current, ratio, new_ratio, len(figures), tolerance), percent, average)


def replicas_for_value(
    current: int, selected: Sequence[Object], milli: int, target_milli: int, tolerance: Tolerance
) -> Recommendation:
    """The replicas for a value of which each ready pod takes a part. Raises MetricsUnavailable."""
    if not selected:
        raise MetricsUnavailable("no pods returned by selector while calculating replica count")
    ratio = milli / target_milli
    if not current:
        return Recommendation(math.ceil(ratio), None, milli)
    ready = sum(pods.phase(pod) == "Running" and pods.is_ready(pod) for pod in selected)
    return Recommendation(current if tolerance.covers(ratio) else math.ceil(ratio * ready), None, milli)


def replicas_for_average(
    current: int, counted: int, milli: int, target_milli: int, tolerance: Tolerance
) -> Recommendation:
    """The replicas for a value whose part of one pod is to be `target_milli`. `counted` are the replicas that there
    are."""
    replicas = current
    if not counted or not tolerance.covers(milli / (target_milli * counted)):
        replicas = math.ceil(milli / target_milli)
    return Recommendation(replicas, None, -(-milli // max(counted, 1)))


def _assumed(groups: _Groups, target: MetricTarget, ratio: float, with_starting: bool) -> dict[str, int]:
    assumed: dict[str, int] = {}
    if ratio < 1.0:
        assumed = {name: target.full(name) for name in groups.unknown}
    elif ratio > 1.0:
        assumed = dict.fromkeys(groups.unknown, 0)
    if with_starting:
        assumed |= dict.fromkeys(groups.starting, 0)
    return assumed


def _cautious(current: int, ratio: float, new_ratio: float, count: int, tolerance: Tolerance) -> int:
    """Keeps the current size if the assumed values reverse the direction of the step."""
    is_reversed = (ratio < 1.0 < new_ratio) or (new_ratio < 1.0 < ratio)
    if is_reversed or tolerance.covers(new_ratio):
        return current
    desired = math.ceil(new_ratio * count)
    if (new_ratio < 1.0 and desired > current) or (new_ratio > 1.0 and desired < current):
        return current
    return desired
