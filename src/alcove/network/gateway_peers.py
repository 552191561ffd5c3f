"""The peers of policies that are no pods: a network's DNS and its proxy to the API server, in the gateway on each node. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.addresses import Address
from alcove.network import wellknown
from alcove.network.policy import NamedPort, PolicyPeer
from alcove.network.wellknown import API_NAMESPACE, API_PORT, DNS_NAMESPACE

_DNS_PORTS = (NamedPort("dns", "UDP", 53), NamedPort("dns-tcp", "TCP", 53))
_API_PORTS = (NamedPort("https", "TCP", API_PORT),)


def gateway_peers(network: str, addresses: Iterable[Address]) -> list[PolicyPeer]:
    """`addresses` are those of the network's gateways."""
    found = tuple(addresses)
    labels = [{"k8s-app": app} for app in ("kube-dns", wellknown.dns_name(network))]
    dns = [_peer(DNS_NAMESPACE, each, found, _DNS_PORTS) for each in labels]
    api = {"component": "apiserver", "provider": "kubernetes"}
    return [*dns, _peer(API_NAMESPACE, api, found, _API_PORTS)]


def _peer(
    namespace: str, labels: dict[str, str], addresses: tuple[Address, ...], ports: tuple[NamedPort, ...]
) -> PolicyPeer:
    return PolicyPeer(
        namespace=namespace, labels=labels, addresses=addresses, ports=ports, shares_address=True
    )
