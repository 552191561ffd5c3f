"""A pod's requests: resources, added up over its containers as in Kubernetes, and host ports."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from alcove.api.objects import Object, get
from alcove.api.quantity import MILLI, ONE
from alcove.scheduler.hostports import EVERY_ADDRESS, HostPort
from alcove.scheduler.resource_amounts import CPU, MEMORY, PODS, Amounts, counted, read_nanos

SHOWN_MIN = {CPU: 100 * MILLI, MEMORY: 200 * 1024 * 1024 * ONE}
"""Requests that scores assume for a container without any, in nanos."""
_POD_LEVEL = (CPU, MEMORY)


class Resized(Struct, frozen=True):
    """Requests that apply instead of those in the spec."""

    containers: Mapping[str, Mapping[str, Any]] = {}
    """By container name."""
    whole: Mapping[str, Any] | None = None
    """Pod-level requests. None if they are as in the spec."""

    def __bool__(self) -> bool:
        return bool(self.containers) or self.whole is not None


NOT_RESIZED = Resized()


class Requests(Struct, frozen=True):
    amounts: Amounts
    """All non-zero requests, and one pod."""
    shown_cpu: int
    shown_memory: int


def read_requests(spec: Object, resized: Resized) -> Requests:
    """Raises QuantityError."""
    requested = _total(spec, resized, {})
    minimum = SHOWN_MIN
    if get(spec, "resources", "requests"):
        # Pod-level requests cover containers without requests: assume no minimum for these resources.
        minimum = {name: nano for name, nano in SHOWN_MIN.items() if name not in requested}
    shown = _total(spec, resized, minimum)
    amounts = {name: amount for name, nano in requested.items() if (amount := counted(name, nano))}
    return Requests(
        {**amounts, PODS: 1}, counted(CPU, shown.get(CPU, 0)), counted(MEMORY, shown.get(MEMORY, 0))
    )


def _total(spec: Object, resized: Resized, minimum: Amounts) -> Amounts:
    """The sum of containers and sidecars, or the maximum during init if that is more; replaced by pod-level
    requests; plus overhead."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _container_requests(container, resized, minimum))
    sidecars: Amounts = {}
    initializing: Amounts = {}
    for container in spec.get("initContainers") or ():
        requested = _container_requests(container, resized, minimum)
        if container.get("restartPolicy") == "Always":
            _add(total, requested)
            _add(sidecars, requested)
            _raise_to(initializing, sidecars)
        else:
            _add(requested, sidecars)
            _raise_to(initializing, requested)
    _raise_to(total, initializing)
    pod_requests = get(spec, "resources", "requests", default={})
    whole = read_nanos(pod_requests if resized.whole is None else resized.whole)
    for resource in pod_requests:
        if resource in _POD_LEVEL or resource.startswith("hugepages-"):
            total[resource] = whole.get(resource, 0)
    _add(total, read_nanos(spec.get("overhead")))
    return total


def _container_requests(container: Object, resized: Resized, minimum: Amounts) -> Amounts:
    requests = resized.containers.get(container.get("name", ""))
    if requests is None:
        requests = get(container, "resources", "requests", default={})
    return {**minimum, **read_nanos(requests)}


def _add(total: Amounts, more: Amounts) -> None:
    for resource, nano in more.items():
        total[resource] = total.get(resource, 0) + nano


def _raise_to(total: Amounts, minimum: Amounts) -> None:
    for resource, nano in minimum.items():
        if nano > total.get(resource, 0):
            total[resource] = nano


def read_resized(pod: Object) -> Resized:
    """Requests of a running pod during a resize: the maximum of requested, allocated and actual resources. An
    infeasible resize is not counted."""
    status = pod.get("status") or {}
    is_refused = _is_resize_refused(pod)
    statuses = {each.get("name"): each for each in _statuses(pod)}
    containers = {
        container["name"]: effective
        for container in _resizable(pod["spec"])
        if (effective := _effective(container, statuses.get(container.get("name")), is_refused)) is not None
    }
    whole = _effective(pod["spec"], status, is_refused) if get(pod, "spec", "resources", "requests") else None
    return Resized(containers, whole) if containers or whole is not None else NOT_RESIZED


def _effective(spec: Object, status: Object | None, is_refused: bool) -> dict[str, Any] | None:
    """Effective requests of a container or of a pod. None if they are those of the spec."""
    if status is None or status.get("resources") is None:
        return None
    requested = get(spec, "resources", "requests", default={})
    actual = status["resources"].get("requests") or {}
    granted = status.get("allocatedResources") or {}
    if actual == requested and (not granted or granted == requested):
        return None
    return _greatest({} if is_refused else requested, actual, granted)


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
