"""Which pods are behind a service, at which addresses and ports. Pure.

A backend is a pod of the service's tenant, namespace and network that its selector matches. A pod of
another network is never one, whatever its labels: nothing could reach it, or worse, somebody else's pod
with the same address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    """It may be sent requests."""
    is_serving: bool
    """It could answer them, even if it is ending."""
    is_ending: bool

    def address(self, family: str) -> str | None:
        """Its address of a family (IPv4 or IPv6), if it has one."""
        return next((each for each in self.addresses if (":" in each) == (family == "IPv6")), None)


def is_headless(service: Object) -> bool:
    return bool(get(service, "spec", "clusterIP") == "None")


def is_kept(service: Object) -> bool:
    """Its endpoints are ours to keep: it has a selector, and is no alias of a name elsewhere."""
    return bool(get(service, "spec", "selector")) and get(service, "spec", "type") != "ExternalName"


def families(service: Object) -> list[str]:
    return get(service, "spec", "ipFamilies") or ["IPv4"]


def backends(service: Object, selector: LabelSelector, candidates: Iterable[Object]) -> list[EndpointBackend]:
    """In the order of the pods' names. Pods that are over or have no address are not among them."""
    network = network_of(service)
    found = [
        _backend(service, pod)
        for pod in candidates
        if selector.matches(labels(pod)) and network_of(pod) == network and not pods.is_finished(pod)
    ]
    return sorted((each for each in found if each.addresses), key=lambda each: each.pod["metadata"]["name"])


def _backend(service: Object, pod: Object) -> EndpointBackend:
    told = [each.get("ip", "") for each in get(pod, "status", "podIPs", default=())]
    addresses = told or [get(pod, "status", "podIP", default="")]
    serving, ending = pods.is_ready(pod), pods.is_ending(pod)
    publish = bool(get(service, "spec", "publishNotReadyAddresses"))
    return EndpointBackend(
        pod,
        tuple(each for each in addresses if each),
        tuple(_ports(service, pod)),
        publish or (serving and not ending),
        serving,
        ending,
    )


def _ports(service: Object, pod: Object) -> Iterable[EndpointPort]:
    """A port whose name the pod does not have is left out for that pod."""
    for port in get(service, "spec", "ports", default=()):
        protocol = port.get("protocol") or "TCP"
        number = _target(port, protocol, pod)
        if number is not None:
            yield EndpointPort(port.get("name") or "", number, protocol, port.get("appProtocol") or "")


def _target(port: Object, protocol: str, pod: Object) -> int | None:
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    spec = pod.get("spec") or {}
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    containers: Sequence[Object] = [*(spec.get("containers") or ()), *sidecars]
    return next(
        (
            each["containerPort"]
            for container in containers
            for each in container.get("ports") or ()
            if each.get("name") == target and (each.get("protocol") or "TCP") == protocol
        ),
        None,
    )


def target(pod: Object) -> Object:
    """What an address refers to."""
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def host_name(service: Object, pod: Object) -> str:
    """The name that the pod has within the service's, if it asked for one."""
    spec = pod.get("spec") or {}
    is_within = spec.get("subdomain") == service["metadata"]["name"]
    return (spec.get("hostname") or "") if is_within else ""
