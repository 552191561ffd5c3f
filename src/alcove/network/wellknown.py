"""The two services that every network has: the way to its DNS, and to the tenant's API server.

They have no selector: what is behind them is on every node, in the network's gateway.
"""

from __future__ import annotations

from alcove.api import objects
from alcove.api.kinds.core.networks import NETWORK_LABEL, network_of
from alcove.api.objects import Object
from alcove.network.owners import TenantNetworkId

DNS_NAMESPACE = "kube-system"
API_NAMESPACE = "default"
DNS_OFFSET = 10
"""The DNS service's address within the network's range for services, if it can be had."""


def dns_name(network: str) -> str:
    return f"kube-dns-{network}"


def api_name(network: str) -> str:
    return f"kubernetes-{network}"


def is_wellknown(service: Object) -> bool:
    network = network_of(service)
    place = (objects.namespace(service), objects.name(service))
    return place in ((DNS_NAMESPACE, dns_name(network)), (API_NAMESPACE, api_name(network)))


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
    own = {"k8s-app": name, **labels}
    if len(owner.name) <= 63:
        # Label values are shorter than networks' names may be.
        own[NETWORK_LABEL] = owner.name
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": own},
        "spec": {"network": owner.name, "ports": ports},
    }
