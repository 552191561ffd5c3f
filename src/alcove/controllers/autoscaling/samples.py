"""Pod metrics from the metrics API, and resource requests, in milli-units. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api import meta, quantity
from alcove.api.objects import Object, get

WINDOW_SECONDS_DEFAULT = 60.0


class MetricSample(Struct, frozen=True):
    milli: int
    time: float
    window_seconds: float


class MetricsUnavailable(Exception):
    """No size can be computed. The text is shown to users; `reason` is the condition's reason, if it has
    one."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason


Samples = dict[str, MetricSample]
"""Samples by pod name, all of one tenant and namespace."""


def to_milli(text: str) -> int:
    """The quantity in milli-units, rounded up."""
    return -(-quantity.of(text).nano // quantity.MILLI)


def read(items: Iterable[Object], resource: str, container: str = "") -> Samples:
    """The usage of one container, or of all containers of each pod. Pods without a complete value are
    omitted."""
    result: Samples = {}
    for item in items:
        milli = _milli(item.get("containers") or (), resource, container)
        if milli is not None:
            name = item["metadata"]["name"]
            result[name] = MetricSample(
                milli, meta.parse_time(item["timestamp"]), seconds(item.get("window") or "")
            )
    return result


def _milli(containers: Iterable[Object], resource: str, container: str) -> int | None:
    figures = [
        get(each, "usage", resource) for each in containers if not container or each.get("name") == container
    ]
    if not figures or any(figure is None for figure in figures):
        return None
    return sum(to_milli(figure) for figure in figures)


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds(duration: str) -> float:
    """The seconds of a Go duration (`1m30s`); WINDOW_SECONDS_DEFAULT if it is invalid."""
    total, number, unit = 0.0, "", ""
    for char in f"{duration}0":
        if char.isdigit() or char == ".":
            if unit:
                if unit not in _UNITS or not number:
                    return WINDOW_SECONDS_DEFAULT
                total += float(number) * _UNITS[unit]
                number, unit = "", ""
            number += char
        else:
            unit += char
    return total if duration and number == "0" else WINDOW_SECONDS_DEFAULT


def requests(pods: Iterable[Object], resource: str, container: str = "") -> Mapping[str, int]:
    """The resource request of each pod. Raises MetricsUnavailable if a container has no request, because a
    utilization cannot be computed without one."""
    return {pod["metadata"]["name"]: _requested(pod, resource, container) for pod in pods}


def _requested(pod: Object, resource: str, container: str) -> int:
    total = 0
    spec = pod.get("spec") or {}
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for each in [*(spec.get("containers") or ()), *sidecars]:
        if container and each.get("name") != container:
            continue
        figure = get(each, "resources", "requests", resource)
        if figure is None:
            name = pod["metadata"]["name"]
            raise MetricsUnavailable(
                f"missing request for {resource} in container {each.get('name')} of Pod {name}"
            )
        total += to_milli(figure)
    return total
