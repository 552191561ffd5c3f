"""A service's backends as one Endpoints object, with addresses grouped by ports. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api.kinds.core.networks import NETWORK_LABEL, network_of
from alcove.api.objects import Object, get, labels
from alcove.client.resources import SERVICES
from alcove.controllers.endpoints.backends import (
    HEADLESS_LABEL,
    EndpointBackend,
    EndpointPort,
    families,
    host_name,
    is_headless,
    target,
)
from alcove.controllers.workloads.controller_refs import reference

ADDRESSES_MAX = 1000
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MANAGED_LABEL = "endpoints.kubernetes.io/managed-by"
MANAGER = "endpoint-controller"


def desired_subsets(service: Object, backends: Sequence[EndpointBackend]) -> Object:
    """The whole object: labels, annotations, subsets, and the service as its owner, so that a service that is deleted and
    created again gets nothing of the one before."""
    family = families(service)[0]
    publish = bool(get(service, "spec", "publishNotReadyAddresses"))
    shown = [each for each in backends if each.address(family) and (publish or not each.is_terminating)]
    # Ready backends first, so that they are retained if there are too many.
    retained = sorted(shown, key=lambda each: not each.is_ready)[:ADDRESSES_MAX]
    metadata: Object = {
        "name": service["metadata"]["name"],
        "namespace": service["metadata"]["namespace"],
        "labels": {**labels(service), MANAGED_LABEL: MANAGER, NETWORK_LABEL: network_of(service)},
        "ownerReferences": [reference(SERVICES, service)],
    }
    if is_headless(service):
        metadata["labels"][HEADLESS_LABEL] = ""
    if len(shown) > len(retained):
        metadata["annotations"] = {OVER_CAPACITY: "truncated"}
    result: Object = {"metadata": metadata}
    if subsets := _subsets(service, retained, family):
        result["subsets"] = subsets
    return result


def _subsets(service: Object, retained: Sequence[EndpointBackend], family: str) -> list[Object]:
    by_ports: dict[tuple[EndpointPort, ...], list[EndpointBackend]] = {}
    # The same: pods with the same ports share them, and there may be a thousand.
    by_identity: dict[int, list[EndpointBackend]] = {}
    for each in retained:
        if each.ports or is_headless(service):
            if id(each.ports) not in by_identity:
                by_identity[id(each.ports)] = by_ports.setdefault(tuple(sorted(each.ports)), [])
            by_identity[id(each.ports)].append(each)
    return [_subset(service, ports, group, family) for ports, group in sorted(by_ports.items())]


def _subset(
    service: Object, ports: tuple[EndpointPort, ...], group: list[EndpointBackend], family: str
) -> Object:
    subset: Object = {}
    for name, ready in (("addresses", True), ("notReadyAddresses", False)):
        entries = [_address(service, each, family) for each in group if each.is_ready is ready]
        if entries:
            subset[name] = sorted(entries, key=lambda entry: (entry["ip"], entry["targetRef"]["uid"]))
    if ports:
        subset["ports"] = [_port(port) for port in ports]
    return subset


def _port(port: EndpointPort) -> Object:
    shown = port.as_object()
    return shown if port.name else {field: value for field, value in shown.items() if field != "name"}


def _address(service: Object, backend: EndpointBackend, family: str) -> Object:
    shown: Object = {"ip": backend.address(family), "targetRef": target(backend.pod)}
    if node := get(backend.pod, "spec", "nodeName"):
        shown["nodeName"] = node
    if name := host_name(service, backend.pod):
        shown["hostname"] = name
    return shown
