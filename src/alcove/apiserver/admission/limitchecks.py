"""Whether what a pod or claim asks for is within a LimitRange, in Kubernetes' words. Pure."""

from collections.abc import Callable, Mapping, Sequence

from alcove.api import quantity
from alcove.api.kinds.core.pods import totals
from alcove.api.objects import Object
from alcove.api.quantity import Quantity

Amounts = Mapping[str, Quantity]
_Check = Callable[[str, str, Quantity, Quantity | None, Quantity | None], str]
"""(type, resource, bound, request, limit) → what is wrong, empty if nothing."""

_POD_LEVEL = ("cpu", "memory")
"""What a pod's own `resources` say in place of the sum over its containers."""


def check_pod(spec: Object, limits: Sequence[Object]) -> list[str]:
    """What is wrong with a pod, by the limits of its containers and of itself."""
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
    """What is wrong with a volume claim: only what it requests counts."""
    messages: list[str] = []
    requests = amounts(spec, "requests")
    for limit in limits:
        if limit.get("type") != "PersistentVolumeClaim":
            continue
        for field, check in (("min", _least), ("max", _most_requested)):
            for resource, bound in _bounds(limit, field).items():
                messages.append(check("PersistentVolumeClaim", resource, bound, requests.get(resource), None))
    return [text for text in messages if text]


def amounts(holder: Object, side: str) -> dict[str, Quantity]:
    """`resources` of a container, pod or claim."""
    given = (holder.get("resources") or {}).get(side) or {}
    return {resource: quantity.of(value) for resource, value in given.items()}


def pod_requests(spec: Object) -> dict[str, Quantity]:
    return {**totals.container_requests(spec), **_own(spec, "requests")}


def pod_limits(spec: Object) -> dict[str, Quantity]:
    return {**totals.container_limits(spec), **_own(spec, "limits")}


def _own(spec: Object, side: str) -> dict[str, Quantity]:
    own = amounts(spec, side)
    return {resource: own[resource] for resource in _POD_LEVEL if resource in own}


def _bounds(limit: Object, field: str) -> dict[str, Quantity]:
    return {resource: quantity.of(value) for resource, value in (limit.get(field) or {}).items()}


def _violations(kind: str, limit: Object, requests: Amounts, limits: Amounts) -> list[str]:
    messages = [
        check(kind, resource, bound, requests.get(resource), limits.get(resource))
        for field, check in _CHECKS
        for resource, bound in _bounds(limit, field).items()
    ]
    return [text for text in messages if text]


def _least(
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


def _most(kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    message = f"maximum {resource} usage per {kind} is {bound}"
    if limit is None:
        return f"{message}.  No limit is specified"
    if limit > bound:
        return f"{message}, but limit is {limit}"
    if request is not None and request > bound:
        return f"{message}, but request is {request}"
    return ""


def _most_requested(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, _limit: Quantity | None
) -> str:
    message = f"maximum {resource} usage per {kind} is {bound}"
    if request is None:
        return f"{message}.  No request is specified"
    return f"{message}, but request is {request}" if request > bound else ""


def _ratio(
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


_CHECKS: tuple[tuple[str, _Check], ...] = (("min", _least), ("max", _most), ("maxLimitRequestRatio", _ratio))
