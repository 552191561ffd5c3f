"""Checks a pod or claim against a LimitRange, with Kubernetes' messages. Pure: no I/O."""

from collections.abc import Callable, Mapping, Sequence

from alcove.api import quantity
from alcove.api.kinds.core.pods import totals
from alcove.api.objects import Object
from alcove.api.quantity import Quantity

Amounts = Mapping[str, Quantity]
_Check = Callable[[str, str, Quantity, Quantity | None, Quantity | None], str]
"""(type, resource, bound, request, limit) → error message, empty if there is none."""

_POD_LEVEL = ("cpu", "memory")
"""Resources for which a pod's own `resources` replace the sum over its containers."""


def check_pod(spec: Object, limits: Sequence[Object]) -> list[str]:
    """Messages for a pod that violates the limits for containers or pods."""
    messages: list[str] = []
    for limit in limits:
        if limit.get("type") == "Container":
            for field in ("containers", "initContainers"):
                for container in spec.get(field) or ():
                    requests, ceilings = (amounts(container, side) for side in ("requests", "limits"))
                    messages += _violations("Container", limit, requests, ceilings)
        elif limit.get("type") == "Pod":
            messages += _violations("Pod", limit, pod_requests(spec), pod_limits(spec))
    return messages


def check_claim(spec: Object, limits: Sequence[Object]) -> list[str]:
    """Messages for a volume claim whose requests violate the limits."""
    messages: list[str] = []
    requests = amounts(spec, "requests")
    for limit in limits:
        if limit.get("type") != "PersistentVolumeClaim":
            continue
        for field, check in (("min", _check_min), ("max", _check_max_requested)):
            for resource, bound in _bounds(limit, field).items():
                messages.append(check("PersistentVolumeClaim", resource, bound, requests.get(resource), None))
    return [text for text in messages if text]


def amounts(holder: Object, side: str) -> dict[str, Quantity]:
    """`resources` of a container, pod or claim."""
    values = (holder.get("resources") or {}).get(side) or {}
    return {resource: quantity.of(value) for resource, value in values.items()}


def pod_requests(spec: Object) -> dict[str, Quantity]:
    return {**totals.container_requests(spec), **_pod_level(spec, "requests")}


def pod_limits(spec: Object) -> dict[str, Quantity]:
    return {**totals.container_limits(spec), **_pod_level(spec, "limits")}


def _pod_level(spec: Object, side: str) -> dict[str, Quantity]:
    values = amounts(spec, side)
    return {resource: values[resource] for resource in _POD_LEVEL if resource in values}


def _bounds(limit: Object, field: str) -> dict[str, Quantity]:
    return {resource: quantity.of(value) for resource, value in (limit.get(field) or {}).items()}


def _violations(kind: str, limit: Object, requests: Amounts, limits: Amounts) -> list[str]:
    messages = [
        check(kind, resource, bound, requests.get(resource), limits.get(resource))
        for field, check in _CHECKS
        for resource, bound in _bounds(limit, field).items()
    ]
    return [text for text in messages if text]


def _check_min(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    message = f"minimum {resource} usage per {kind} is {bound}"
    if request is None:
        return f"{message}.  No request is specified"
    if request < bound:
        return f"{message}, but request is {request}"
    if limit is not None and limit < bound:
        return f"{message}, but limit is {limit}"
    return ""


def _check_max(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    message = f"maximum {resource} usage per {kind} is {bound}"
    if limit is None:
        return f"{message}.  No limit is specified"
    if limit > bound:
        return f"{message}, but limit is {limit}"
    if request is not None and request > bound:
        return f"{message}, but request is {request}"
    return ""


def _check_max_requested(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, _limit: Quantity | None
) -> str:
    message = f"maximum {resource} usage per {kind} is {bound}"
    if request is None:
        return f"{message}.  No request is specified"
    return f"{message}, but request is {request}" if request > bound else ""


def _check_ratio(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    message = f"{resource} max limit to request ratio per {kind} is {bound}"
    if not request:
        return f"{message}, but no request is specified or request is 0"
    if not limit:
        return f"{message}, but no limit is specified or limit is 0"
    if limit.nano * quantity.ONE > bound.nano * request.nano:
        return f"{message}, but provided ratio is {limit.nano / request.nano:f}"
    return ""


_CHECKS: tuple[tuple[str, _Check], ...] = (
    ("min", _check_min),
    ("max", _check_max),
    ("maxLimitRequestRatio", _check_ratio),
)
