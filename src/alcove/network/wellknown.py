"""The services that every network has: its DNS and the tenant's API server.

They have no selector: their backends run on every node, in the network's gateway. In the default network the API
server also has the name that it has in Kubernetes: `default/kubernetes`.
"""

from __future__ import annotations

from alcove.api import objects
from alcove.api.addresses import Network
from alcove.api.kinds.core.networks import DEFAULT_NETWORK, NETWORK_LABEL, network_of
from alcove.api.objects import Object
from alcove.network.owners import TenantNetworkId

DNS_NAMESPACE = "kube-system"
DNS_NAME = "kube-dns"
API_NAMESPACE = "default"
API_NAME = "kubernetes"
API_PORT = 6443
"""The gateway's port of the API server."""
DNS_OFFSET, API_OFFSET = 10, 1
"""Offsets of the addresses of `kube-dns` and `default/kubernetes` within the network's service range, if those
addresses are free."""


def dns_name(network: str) -> str:
    return f"{DNS_NAME}-{network}"


def api_names(network: str) -> tuple[str, ...]:
    name = f"{API_NAME}-{network}"
    return (name, API_NAME) if network == DEFAULT_NETWORK else (name,)


def ids_of(network: str) -> tuple[tuple[str, str], ...]:
    """Namespaces and names of the network's own services."""
    return ((DNS_NAMESPACE, dns_name(network)), *((API_NAMESPACE, name) for name in api_names(network)))


def is_wellknown(service: Object) -> bool:
    return (objects.namespace(service), objects.name(service)) in ids_of(network_of(service))


def is_ours(service: Object) -> bool:
    """Whether it is one of them, and Alcove made it: a stock API server makes `default/kubernetes` itself, and its
    endpoints."""
    return is_wellknown(service) and objects.labels(service).get("k8s-app") == objects.name(service)


def is_dns(service: Object) -> bool:
    return objects.namespace(service) == DNS_NAMESPACE and objects.name(service) == dns_name(
        network_of(service)
    )


def services_of(owner: TenantNetworkId, service_range: Network | None) -> list[Object]:
    """The services that the network is to have, with the addresses that they usually have in that range."""
    dns, *apis = dns_service(owner), *(api_service(owner, name) for name in api_names(owner.name))
    usual = {dns_name(owner.name): DNS_OFFSET, API_NAME: API_OFFSET}
    for service in (dns, *apis):
        offset = usual.get(objects.name(service))
        if service_range is not None and offset is not None and offset < service_range.num_addresses - 1:
            service["spec"]["clusterIP"] = str(service_range.network_address + offset)
    return [dns, *apis]


def dns_service(owner: TenantNetworkId) -> Object:
    ports = [
        {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 53},
        {"name": "dns-tcp", "protocol": "TCP", "port": 53, "targetPort": 53},
    ]
    return _service(owner, DNS_NAMESPACE, dns_name(owner.name), ports, {})


def api_service(owner: TenantNetworkId, name: str) -> Object:
    ports = [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": API_PORT}]
    more = {"provider": "kubernetes", "component": "apiserver"}
    return _service(owner, API_NAMESPACE, name, ports, more)


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
