"""The sum of a pod's requests, as the scheduler counts them, and the QoS class."""

from alcove.api import quantity
from alcove.api.objects import Object
from alcove.api.quantity import Quantity, QuantityError

Amounts = dict[str, Quantity]


def container_requests(spec: Object) -> Amounts:
    """Return the sum over containers and sidecars, or the largest init container's request if that is more."""
    return _total(spec, "requests")


def container_limits(spec: Object) -> Amounts:
    return _total(spec, "limits")


def pod_requests(spec: Object) -> Amounts:
    """Return the resources a node must have free for the pod: the containers' requests, or the pod-level
    requests if there are any, plus the overhead of the sandbox."""
    total = {**container_requests(spec), **_amounts(spec, "requests")}
    _add(total, _parsed(spec.get("overhead") or {}))
    return total


def pod_limit(spec: Object, resource: str) -> Quantity | None:
    """Return the limit of the whole pod, without overhead: the pod-level one, or the sum over the containers if
    every container has one. None if it has no limit."""
    own = _amounts(spec, "limits").get(resource)
    if own:
        return own
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    is_limited = all(_amounts(each, "limits").get(resource) for each in containers)
    return container_limits(spec).get(resource) if is_limited else None


def is_sidecar(container: Object) -> bool:
    """Whether an init container keeps running beside the main containers."""
    return container.get("restartPolicy") == "Always"


def _total(spec: Object, side: str) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers", ()):
        _add(total, _amounts(container, side))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers", ()):
        needed = _amounts(container, side)
        if is_sidecar(container):
            _add(total, needed)
            _add(sidecars, needed)
            needed = sidecars
        else:
            _add(needed, sidecars)
        _raise_to(starting, needed)
    _raise_to(total, starting)
    return total


def _amounts(container: Object, side: str) -> Amounts:
    resources = container.get("resources") or {}
    return _parsed(resources.get(side) or {})


def _parsed(amounts_by_name: Object) -> Amounts:
    amounts: Amounts = {}
    for resource, value in amounts_by_name.items():
        try:
            amounts[resource] = quantity.of(value)
        except QuantityError:
            continue  # Invalid amounts are reported by validation; they are not counted.
    return amounts


def _add(total: Amounts, more: Amounts) -> None:
    for resource, amount in more.items():
        total[resource] = total[resource] + amount if resource in total else amount


def _raise_to(total: Amounts, minimum: Amounts) -> None:
    for resource, amount in minimum.items():
        if resource not in total or amount > total[resource]:
            total[resource] = amount


def qos_class(spec: Object) -> str:
    """Return `Guaranteed` (every container has limits for cpu and memory, and equal requests), `Burstable` or
    `BestEffort` (no requests and no limits)."""
    holders = (
        [spec] if "resources" in spec else [*spec.get("containers", ()), *spec.get("initContainers", ())]
    )
    requests: Amounts = {}
    limits: Amounts = {}
    is_limited = True
    for holder in holders:
        holder_limits = _computes(holder, "limits")
        is_limited = is_limited and len(holder_limits) == 2
        _add(limits, holder_limits)
        _add(requests, _computes(holder, "requests"))
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_limited and requests == limits else "Burstable"


def _computes(holder: Object, side: str) -> Amounts:
    amounts = _amounts(holder, side)
    return {name: amount for name, amount in amounts.items() if name in ("cpu", "memory") and amount.nano > 0}
