"""Converts autoscaler metrics: v2 has a metric and a target, v1 (in annotations) has flat fields.

    v2  pods: {metric: {name, selector}, target: {type: AverageValue, averageValue}}
    v1  pods: {metricName, selector, targetAverageValue}

Specs and statuses differ only in the prefixes `target` and `current`.
"""

from typing import Any

from alcove.api.objects import Object

_SOURCES = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_SELECTORS = {"External": "metricSelector"}
"""v1 has another name for an external metric's selector."""


def specs_to_v1(specs: list[Object]) -> list[Object]:
    return [_to_v1(spec, "target") for spec in specs if spec.get("type") in _SOURCES]


def statuses_to_v1(statuses: list[Object]) -> list[Object]:
    return [_to_v1(status, "current") for status in statuses if status.get("type") in _SOURCES]


def specs_to_v2(specs: Any) -> list[Object]:
    """Convert an annotation's JSON, which any client may have written: invalid metrics are skipped."""
    return (
        [_to_v2(spec, "target") for spec in specs or () if _is_metric(spec)]
        if isinstance(specs, list)
        else []
    )


def statuses_to_v2(statuses: Any) -> list[Object]:
    """Convert an annotation's JSON, like `specs_to_v2`."""
    if not isinstance(statuses, list):
        return []
    return [_to_v2(status, "current") for status in statuses if _is_metric(status)]


def _is_metric(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or value["type"] not in _SOURCES:
        return False
    return isinstance(value.get(_SOURCES[value["type"]]), dict)


def _to_v1(metric: Object, side: str) -> Object:
    kind = metric["type"]
    source = metric.get(_SOURCES[kind]) or {}
    amount = source.get(side) or {}
    flat = {
        "name": source.get("name"),
        "container": source.get("container"),
        "target": source.get("describedObject"),
        "metricName": (source.get("metric") or {}).get("name"),
        _SELECTORS.get(kind, "selector"): (source.get("metric") or {}).get("selector"),
        f"{side}AverageUtilization": amount.get("averageUtilization"),
        f"{side}Value": amount.get("value"),
        _average_value(kind, side): amount.get("averageValue"),
    }
    return {
        "type": kind,
        _SOURCES[kind]: {field: value for field, value in flat.items() if value is not None},
    }


def _to_v2(metric: Object, side: str) -> Object:
    kind = metric["type"]
    flat = metric[_SOURCES[kind]]
    amount = {
        "averageUtilization": flat.get(f"{side}AverageUtilization"),
        "value": flat.get(f"{side}Value"),
        "averageValue": flat.get(_average_value(kind, side)),
    }
    source = {
        "name": flat.get("name"),
        "container": flat.get("container"),
        "describedObject": flat.get("target"),
        "metric": _present(name=flat.get("metricName"), selector=flat.get(_SELECTORS.get(kind, "selector")))
        or None,
        side: {**_target_type(amount, side), **_present(**amount)},
    }
    return {"type": kind, _SOURCES[kind]: _present(**source)}


def _average_value(kind: str, side: str) -> str:
    return "averageValue" if kind == "Object" else f"{side}AverageValue"


def _target_type(amount: Object, side: str) -> Object:
    """Only v2 names the type of a target; in v1 it follows from which value is present."""
    if side != "target":
        return {}
    if amount["averageUtilization"] is not None:
        return {"type": "Utilization"}
    return {"type": "AverageValue" if amount["averageValue"] is not None else "Value"}


def _present(**fields: Any) -> Object:
    return {field: value for field, value in fields.items() if value is not None}
