"""The two services that every network has: its DNS and the tenant's API server.

They have no selector: their backends run on every node, in the network's gateway.
"""

from __future__ import annotations

from alcove.api import objects
from alcove.api.kinds.core.networks import NETWORK_LABEL, network_of
from alcove.api.objects import Object
from alcove.network.owners import TenantNetworkId

DNS_NAMESPACE = "kube-system"
API_NAMESPACE = "default"
DNS_OFFSET = 10
"""Offset of the DNS service's address within the network's service range, if that address is free."""


def dns_name(network: str) -> str:
    return f"kube-dns-{network}"


def api_name(network: str) -> str:
    return f"kubernetes-{network}"


def is_wellknown(service: Object) -> bool:
    network = network_of(service)
    name = (objects.namespace(service), objects.name(service))
    return name in ((DNS_NAMESPACE, dns_name(network)), (API_NAMESPACE, api_name(network)))


def is_dns(service: Object) -> bool:
    return objects.namespace(service) == DNS_NAMESPACE and objects.name(service) == dns_name(
        network_of(service)
    )


def dns_service(owner: TenantNetworkId) -> Object:
    ports = [
        {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 53},
        {"name": "dns-tcp", "protocol": "TCP", "port": 53, "targetPort": 53},
    ]
    return _service(owner, DNS_NAMESPACE, dns_name(owner.name), ports, {})


def api_service(owner: TenantNetworkId) -> Object:
    ports = [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}]
    more = {"provider": "kubernetes", "component": "apiserver"}
    return _service(owner, API_NAMESPACE, api_name(owner.name), ports, more)


def _service(
    owner: TenantNetworkId, namespace: str, name: str, ports: list[Object], labels: dict[str, str]
) -> Object:
    all_labels = {"k8s-app": name, **labels}
    if len(owner.name) <= 63:
        # A label value is limited to 63 characters; a network's name is not.
        all_labels[NETWORK_LABEL] = owner.name
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": all_labels},
        "spec": {"network": owner.name, "ports": ports},
    }
