"""The pods behind a service, with their addresses and ports. Pure.

A backend is a pod in the service's tenant, namespace and network that its selector matches. A pod in another
network is never a backend, whatever its labels: its address is unreachable from the service's network, or
belongs to a different pod there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object, get, labels
from alcove.api.selectors import LabelSelector
from alcove.controllers.workloads import pods

HEADLESS_LABEL = "service.kubernetes.io/headless"


class EndpointPort(Struct, frozen=True, order=True):
    name: str
    port: int
    protocol: str
    app_protocol: str = ""

    def as_object(self) -> Object:
        shown: Object = {"name": self.name, "port": self.port, "protocol": self.protocol}
        return shown | ({"appProtocol": self.app_protocol} if self.app_protocol else {})


class EndpointBackend(Struct, frozen=True):
    pod: Object
    addresses: tuple[str, ...]
    ports: tuple[EndpointPort, ...]
    is_ready: bool
    """Whether it may receive requests."""
    is_serving: bool
    """Whether it is ready, even if it is terminating."""
    is_terminating: bool

    def address(self, family: str) -> str | None:
        """The pod's address of a family (IPv4 or IPv6). None if it has none."""
        return next((each for each in self.addresses if (":" in each) == (family == "IPv6")), None)


def is_headless(service: Object) -> bool:
    return bool(get(service, "spec", "clusterIP") == "None")


def is_managed(service: Object) -> bool:
    """Whether the controllers manage the service's endpoints: it has a selector and is no ExternalName."""
    return bool(get(service, "spec", "selector")) and get(service, "spec", "type") != "ExternalName"


def is_of_previous(obj: Object, service: Object) -> bool:
    """Whether endpoints were made for another service: one of the same name that has been deleted."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(
        each.get("controller")
        and each.get("kind") == "Service"
        and each.get("uid") != service["metadata"]["uid"]
        for each in owners
    )


def families(service: Object) -> list[str]:
    return get(service, "spec", "ipFamilies") or ["IPv4"]


def backends(service: Object, selector: LabelSelector, candidates: Iterable[Object]) -> list[EndpointBackend]:
    """Sorted by pod name. Finished pods and pods without an address are omitted."""
    network = network_of(service)
    ports = _ServicePorts(service)
    selected = [
        _backend(service, pod, ports.of(pod))
        for pod in candidates
        if selector.matches(labels(pod)) and network_of(pod) == network and not pods.is_finished(pod)
    ]
    return sorted(
        (each for each in selected if each.addresses), key=lambda each: each.pod["metadata"]["name"]
    )


def _backend(service: Object, pod: Object, ports: tuple[EndpointPort, ...]) -> EndpointBackend:
    pod_ips = [each.get("ip", "") for each in get(pod, "status", "podIPs", default=())]
    addresses = pod_ips or [get(pod, "status", "podIP", default="")]
    serving, terminating = pods.is_ready(pod), pods.is_terminating(pod)
    publish = bool(get(service, "spec", "publishNotReadyAddresses"))
    return EndpointBackend(
        pod,
        tuple(each for each in addresses if each),
        ports,
        publish or (serving and not terminating),
        serving,
        terminating,
    )


class _ServicePorts:
    """The ports of a service, resolved for pods. Pods with the same ports share one tuple: a service has up to a thousand ports, and
    thousands of pods."""

    def __init__(self, service: Object) -> None:
        self._ports: Sequence[Object] = get(service, "spec", "ports", default=()) or ()
        self._names = [
            (port["targetPort"], port.get("protocol") or "TCP")
            for port in self._ports
            if isinstance(port.get("targetPort") or 0, str)
        ]
        self._known: dict[tuple[int | None, ...], tuple[EndpointPort, ...]] = {}
        """By the numbers of named ports."""

    def of(self, pod: Object) -> tuple[EndpointPort, ...]:
        named = _named_ports(pod) if self._names else {}
        numbers = tuple(named.get(key) for key in self._names)
        known = self._known.get(numbers)
        if known is None:
            known = self._known[numbers] = tuple(self._resolved(named))
        return known

    def _resolved(self, named: Mapping[tuple[str, str], int]) -> Iterable[EndpointPort]:
        """A named target port that the pod does not have is omitted for that pod."""
        for port in self._ports:
            protocol = port.get("protocol") or "TCP"
            target = port.get("targetPort") or port["port"]
            number = target if isinstance(target, int) else named.get((target, protocol))
            if number is not None:
                yield EndpointPort(port.get("name") or "", number, protocol, port.get("appProtocol") or "")


def _named_ports(pod: Object) -> dict[tuple[str, str], int]:
    """The numbers of a pod's ports by name and protocol; the first one of a name counts."""
    spec = pod.get("spec") or {}
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    found: dict[tuple[str, str], int] = {}
    for container in (*(spec.get("containers") or ()), *sidecars):
        for each in container.get("ports") or ():
            if each.get("name"):
                found.setdefault((each["name"], each.get("protocol") or "TCP"), each["containerPort"])
    return found


def target(pod: Object) -> Object:
    """The `targetRef` of an address."""
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def host_name(service: Object, pod: Object) -> str:
    """The pod's host name, if its subdomain is this service; otherwise empty."""
    spec = pod.get("spec") or {}
    is_within = spec.get("subdomain") == service["metadata"]["name"]
    return (spec.get("hostname") or "") if is_within else ""
