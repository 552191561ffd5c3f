"""What a pod's containers ask for together, as scheduling counts it, and the QoS class that follows."""

from alcove.api import quantity
from alcove.api.objects import Object
from alcove.api.quantity import Quantity, QuantityError

Amounts = dict[str, Quantity]


def container_requests(spec: Object) -> Amounts:
    """Sum over containers and sidecars, or what the hungriest init container needs if that is more."""
    return _total(spec, "requests")


def container_limits(spec: Object) -> Amounts:
    return _total(spec, "limits")


def pod_requests(spec: Object) -> Amounts:
    """What a node must have free for the pod: its containers' requests, or the pod's own where it has any, and
    the overhead of its sandbox."""
    total = {**container_requests(spec), **_amounts(spec, "requests")}
    _add(total, _parsed(spec.get("overhead") or {}))
    return total


def is_sidecar(container: Object) -> bool:
    """An init container that keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def _total(spec: Object, side: str) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers", ()):
        _add(total, _amounts(container, side))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers", ()):
        asked = _amounts(container, side)
        if is_sidecar(container):
            _add(total, asked)
            _add(sidecars, asked)
            asked = sidecars
        else:
            _add(asked, sidecars)
        _raise_to(starting, asked)
    _raise_to(total, starting)
    return total


def _amounts(container: Object, side: str) -> Amounts:
    return _parsed(container.get("resources", {}).get(side, {}))


def _parsed(given: Object) -> Amounts:
    amounts: Amounts = {}
    for resource, value in given.items():
        try:
            amounts[resource] = quantity.of(value)
        except QuantityError:
            continue  # Validation tells it; there is nothing to count.
    return amounts


def _add(total: Amounts, more: Amounts) -> None:
    for resource, amount in more.items():
        total[resource] = total[resource] + amount if resource in total else amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for resource, amount in least.items():
        if resource not in total or amount > total[resource]:
            total[resource] = amount


def qos_class(spec: Object) -> str:
    """`Guaranteed` (every container limited in cpu and memory, asking for just that), `Burstable`
    or `BestEffort` (nothing asked, nothing limited)."""
    holders = (
        [spec] if "resources" in spec else [*spec.get("containers", ()), *spec.get("initContainers", ())]
    )
    requests: Amounts = {}
    limits: Amounts = {}
    is_limited = True
    for holder in holders:
        own_limits = _computes(holder, "limits")
        is_limited = is_limited and len(own_limits) == 2
        _add(limits, own_limits)
        _add(requests, _computes(holder, "requests"))
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_limited and requests == limits else "Burstable"


def _computes(holder: Object, side: str) -> Amounts:
    amounts = _amounts(holder, side)
    return {name: amount for name, amount in amounts.items() if name in ("cpu", "memory") and amount.nano > 0}
