"""Network policies as rules of the data plane."""

from ipaddress import ip_address, ip_interface, ip_network

from alcove.agent.network.policies import pod_peer, profiles
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.api.ids import TenantId
from alcove.dataplane.model import (
    PortRange,
    PrefixBlock,
    Protocol,
    Subnet,
    TrafficProfile,
    TrafficRule,
    Vpc,
)
from alcove.network.endpoints import EndpointAllocation
from alcove.network.gateway_peers import gateway_peers
from alcove.network.owners import TenantNetworkId
from alcove.network.policy import NamedPort, PolicySet, allows

PREFIX = ip_network("10.0.0.0/24")
BACKING = NetworkBacking(
    TenantNetworkId(TenantId("acme"), "blue"),
    Vpc(7, (PREFIX,)),
    (Subnet(7, PREFIX),),
    (ip_interface("10.0.0.1/24"),),
)
GATEWAYS = gateway_peers(BACKING.owner.name, (each.ip for each in BACKING.gateways))


def test_a_policy_that_names_the_dns_means_the_gateway() -> None:
    web = pod_peer(
        {"metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}}},
        [
            EndpointAllocation(
                "7-10.0.0.5",
                "simple",
                "u",
                None,
                7,
                ip_address("10.0.0.5"),
                ports=(NamedPort("http", "TCP", 8080),),
            )
        ],
    )
    to_dns = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    spec = {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": "http"}]}],
        "egress": [{"to": [to_dns], "ports": [{"port": 53, "protocol": "UDP"}]}],
    }
    policy = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    namespaces: dict[str, dict[str, str]] = {"default": {}, "kube-system": {}}
    rules = PolicySet([policy], namespaces, [*GATEWAYS, web]).rules(web)
    ingress, egress = profiles(rules)
    assert ingress == TrafficProfile((TrafficRule(None, (PortRange(Protocol.TCP, 8080, 8080),)),))
    gateway = (PrefixBlock(ip_network("10.0.0.1/32")),)
    assert egress == TrafficProfile((TrafficRule(gateway, (PortRange(Protocol.UDP, 53, 53),)),))


def test_dns_and_api_server_are_two_peers_though_they_have_one_address() -> None:
    """A policy that let pods reach the DNS, on any port, let them reach the API server as well."""
    web = pod_peer(
        {"metadata": {"name": "web", "namespace": "default", "labels": {}}},
        [EndpointAllocation("7-10.0.0.5", "simple", "u", None, 7, ip_address("10.0.0.5"))],
    )
    api_pods = {"podSelector": {"matchLabels": {"component": "apiserver"}}}
    ranges = [{"port": 50, "endPort": 60}, {"port": "https"}]
    namespaces: dict[str, dict[str, str]] = {"default": {}, "kube-system": {"kind": "system"}}
    for peer, ports, expected in (
        ({"namespaceSelector": {"matchLabels": {"kind": "system"}}}, None, {("UDP", 53), ("TCP", 53)}),
        ({"namespaceSelector": {"matchLabels": {"kind": "system"}}}, ranges, {("TCP", 53)}),
        (api_pods, None, {("TCP", 6443)}),
        (api_pods, ranges, {("TCP", 6443)}),
        (api_pods, ranges[:1], set()),
    ):
        rule = {"to": [peer], **({"ports": ports} if ports else {})}
        spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [rule]}
        policy = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        rules = PolicySet([policy], namespaces, [*GATEWAYS, web]).rules(web)
        gateway = ip_address("10.0.0.1")
        tried = [("UDP", 53), ("TCP", 53), ("TCP", 6443), ("TCP", 10250)]
        assert {each for each in tried if allows(rules.egress, gateway, *each)} == expected
