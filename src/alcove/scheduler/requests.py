"""What a pod asks of a node: resources as Kubernetes adds them up over its containers, and host ports."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from alcove.api.objects import Object, get
from alcove.api.quantity import MILLI, ONE
from alcove.scheduler.hostports import EVERY_ADDRESS, HostPort
from alcove.scheduler.resource_amounts import CPU, MEMORY, PODS, Amounts, counted, read_nanos

SHOWN_LEAST = {CPU: 100 * MILLI, MEMORY: 200 * 1024 * 1024 * ONE}
"""What scores take a container to need that asks for none, in nanos."""
_POD_LEVEL = (CPU, MEMORY)


class Resized(Struct, frozen=True):
    """Requests that are in force instead of those in the spec."""

    containers: Mapping[str, Mapping[str, Any]] = {}
    """By name."""
    whole: Mapping[str, Any] | None = None
    """What the pod asks for as a whole, if that changes."""

    def __bool__(self) -> bool:
        return bool(self.containers) or self.whole is not None


NOT_RESIZED = Resized()


class Requests(Struct, frozen=True):
    amounts: Amounts
    """Everything above zero, and one pod."""
    shown_cpu: int
    shown_memory: int


def read_requests(spec: Object, resized: Resized) -> Requests:
    """Raises QuantityError."""
    asked = _total(spec, resized, {})
    least = SHOWN_LEAST
    if get(spec, "resources", "requests"):
        # What is asked for as a whole says enough of the containers that ask for nothing.
        least = {name: nano for name, nano in SHOWN_LEAST.items() if name not in asked}
    shown = _total(spec, resized, least)
    amounts = {name: amount for name, nano in asked.items() if (amount := counted(name, nano))}
    return Requests(
        {**amounts, PODS: 1}, counted(CPU, shown.get(CPU, 0)), counted(MEMORY, shown.get(MEMORY, 0))
    )


def _total(spec: Object, resized: Resized, least: Amounts) -> Amounts:
    """Containers and sidecars together, or what starting takes if that is more; what the pod asks for
    as a whole replaces that; overhead comes on top."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _asked(container, resized, least))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _asked(container, resized, least)
        if container.get("restartPolicy") == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            _raise_to(starting, sidecars)
        else:
            _add(asked, sidecars)
            _raise_to(starting, asked)
    _raise_to(total, starting)
    asked_as_whole = get(spec, "resources", "requests", default={})
    whole = read_nanos(asked_as_whole if resized.whole is None else resized.whole)
    for resource in asked_as_whole:
        if resource in _POD_LEVEL or resource.startswith("hugepages-"):
            total[resource] = whole.get(resource, 0)
    _add(total, read_nanos(spec.get("overhead")))
    return total


def _asked(container: Object, resized: Resized, least: Amounts) -> Amounts:
    given = resized.containers.get(container.get("name", ""))
    if given is None:
        given = get(container, "resources", "requests", default={})
    return {**least, **read_nanos(given)}


def _add(total: Amounts, more: Amounts) -> None:
    for resource, nano in more.items():
        total[resource] = total.get(resource, 0) + nano


def _raise_to(total: Amounts, least: Amounts) -> None:
    for resource, nano in least.items():
        if nano > total.get(resource, 0):
            total[resource] = nano


def read_resized(pod: Object) -> Resized:
    """What a running pod holds more than its spec asks for, or less: while a resize is under way the
    greater of what is asked, granted and in force counts, and what was asked for in vain does not."""
    status = pod.get("status") or {}
    is_refused = _is_resize_refused(pod)
    statuses = {each.get("name"): each for each in _statuses(pod)}
    containers = {
        container["name"]: held
        for container in _resizable(pod["spec"])
        if (held := _held(container, statuses.get(container.get("name")), is_refused)) is not None
    }
    whole = _held(pod["spec"], status, is_refused) if get(pod, "spec", "resources", "requests") else None
    return Resized(containers, whole) if containers or whole is not None else NOT_RESIZED


def _held(spec: Object, status: Object | None, is_refused: bool) -> dict[str, Any] | None:
    """Of a container, or of a pod as a whole; None: just what it asks for."""
    if status is None or status.get("resources") is None:
        return None
    asked = get(spec, "resources", "requests", default={})
    actual = status["resources"].get("requests") or {}
    granted = status.get("allocatedResources") or {}
    if actual == asked and (not granted or granted == asked):
        return None
    return _greatest({} if is_refused else asked, actual, granted)


def _is_resize_refused(pod: Object) -> bool:
    return any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in get(pod, "status", "conditions", default=[])
    )


def _statuses(pod: Object) -> Iterator[Object]:
    status = pod.get("status") or {}
    yield from status.get("containerStatuses") or ()
    yield from status.get("initContainerStatuses") or ()


def _resizable(spec: Object) -> Iterator[Object]:
    yield from spec.get("containers") or ()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


def _greatest(*lists: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    nanos: Amounts = {}
    for amounts in lists:
        for resource, nano in read_nanos(amounts).items():
            if nano > nanos.get(resource, -1):
                nanos[resource], found[resource] = nano, amounts[resource]
    return found


def read_ports(spec: Object) -> tuple[HostPort, ...]:
    """Host ports of containers and sidecars."""
    return tuple(
        HostPort(port.get("hostIP") or EVERY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in _resizable(spec)
        for port in container.get("ports") or ()
        if (port.get("hostPort") or 0) > 0
    )
