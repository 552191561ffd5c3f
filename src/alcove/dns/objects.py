"""Converts Kubernetes objects into the inputs of a zone. Invalid parts are skipped."""

import ipaddress
from collections.abc import Iterable
from typing import Any

from alcove.api.objects import Object, get, labels, name, namespace
from alcove.dns.model import Address, DnsEndpoint, DnsPod, DnsPort, DnsService, EndpointSlice, ObjectId
from alcove.dns.records import ADDRESSES_MAX

SERVICE_LABEL = "kubernetes.io/service-name"
_NO_ADDRESS = ("", "None")
_FINISHED = ("Succeeded", "Failed")


def id_of(obj: Object) -> ObjectId:
    return ObjectId(namespace(obj), name(obj))


def service_of(obj: Object) -> DnsService | None:
    """None if it has no DNS names: an ExternalName service without a name, or a service without a cluster IP
    yet."""
    spec: Object = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        target = spec.get("externalName") or ""
        return DnsService(id_of(obj), external_name=target) if target else None
    addresses = _addresses(spec.get("clusterIPs") or [spec.get("clusterIP") or ""])
    if not addresses and spec.get("clusterIP") != "None":
        return None
    return DnsService(
        id_of(obj),
        addresses,
        _ports(spec.get("ports") or ()),
        publish_not_ready=bool(spec.get("publishNotReadyAddresses")),
    )


def slice_of(obj: Object) -> EndpointSlice | None:
    """None if it belongs to no service, or does not contain IP addresses."""
    service = labels(obj).get(SERVICE_LABEL, "")
    if not service or obj.get("addressType") not in ("IPv4", "IPv6"):
        return None
    endpoints: list[DnsEndpoint] = []
    room = ADDRESSES_MAX
    for each in obj.get("endpoints") or ():
        endpoints.append(_endpoint(each, room))
        room -= len(endpoints[-1].addresses)
        if room <= 0:
            break
    return EndpointSlice(id_of(obj), service, _ports(obj.get("ports") or ()), tuple(endpoints))


def pod_of(obj: Object) -> DnsPod | None:
    """None if the pod has no IP address of its own (hostNetwork), or has terminated."""
    if get(obj, "spec", "hostNetwork") or get(obj, "status", "phase") in _FINISHED:
        return None
    pod_ips = [each.get("ip") or "" for each in get(obj, "status", "podIPs", default=())]
    addresses = _addresses(pod_ips or [get(obj, "status", "podIP", default="")])
    return DnsPod(id_of(obj), addresses) if addresses else None


def _endpoint(raw: Object, addresses_max: int) -> DnsEndpoint:
    ready = get(raw, "conditions", "ready")
    addresses = _addresses((raw.get("addresses") or ())[:addresses_max])
    return DnsEndpoint(addresses, raw.get("hostname") or "", ready is not False)


def _ports(raw: Iterable[Object]) -> tuple[DnsPort, ...]:
    return tuple(
        DnsPort(port.get("name") or "", port.get("protocol") or "TCP", port["port"])
        for port in raw
        if isinstance(port.get("port"), int)
    )


def _addresses(texts: Iterable[Any]) -> tuple[Address, ...]:
    addresses = []
    for text in texts:
        if text in _NO_ADDRESS:
            continue
        try:
            addresses.append(ipaddress.ip_address(text))
        except ValueError:
            continue
    return tuple(addresses)
