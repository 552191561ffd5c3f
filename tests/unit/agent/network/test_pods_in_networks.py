"""A pod's ports: its wishes, its interfaces, and what policies come to."""

from ipaddress import ip_address, ip_interface, ip_network

import pytest

from alcove.agent.network.environment import environment, service_variables
from alcove.agent.network.node_network import class_of, rate_of, veths_of
from alcove.agent.network.policies import gateway_peers, pod_peer, profiles
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.dataplane.model import (
    PortRange,
    PrefixBlock,
    Protocol,
    Subnet,
    TrafficClass,
    TrafficProfile,
    TrafficRule,
    Vpc,
)
from alcove.network.endpoints import EndpointAllocation, PodNic
from alcove.network.owners import OwnerRef, TenantNetworkId
from alcove.network.policy import NamedPort, PolicySet

PREFIX = ip_network("10.0.0.0/24")
BACKING = NetworkBacking(
    TenantNetworkId(TenantId("acme"), "blue"),
    Vpc(7, (PREFIX,)),
    (Subnet(7, PREFIX),),
    (ip_interface("10.0.0.1/24"),),
)


def nic(interface: str, host: int) -> PodNic:
    pod = OwnerRef(TenantId("acme"), "default", "web")
    gateway = ip_address("10.0.0.1")
    return PodNic(
        pod, interface, "v", 7, ip_interface(f"10.0.0.{host}/24"), f"0a:58:0a:00:00:{host:02x}", gateway
    )


def annotated(**told: str) -> Object:
    return {
        "metadata": {
            "annotations": {name.replace("__", "/").replace("_", "-"): v for name, v in told.items()}
        }
    }


def test_the_first_interface_has_the_way_to_everywhere() -> None:
    first, second = veths_of("al0", "place", {"metadata": {}}, [nic("eth1", 6), nic("eth0", 5)])
    assert (first.pod_interface, first.gateways) == ("eth0", (ip_address("10.0.0.1"),))
    assert (second.pod_interface, second.gateways) == ("eth1", ())
    assert first.name != second.name
    assert len(first.name) <= 15
    [other, _] = veths_of("al0", "other", {"metadata": {}}, [nic("eth1", 6), nic("eth0", 5)])
    assert other.name != first.name


@pytest.mark.parametrize(
    ("name", "text", "rate"),
    [
        ("mizar.com/egress-bandwidth", "80M", 10_000_000),
        ("kubernetes.io/egress-bandwidth", "1Gi", 2**30 // 8),
        ("mizar.com/egress-bandwidth", "fast", 0),
        ("mizar.com/egress-bandwidth", "-5M", 0),
        ("other", "80M", 0),
    ],
)
def test_rates_are_in_bits_per_second(name: str, text: str, rate: int) -> None:
    assert rate_of({"metadata": {"annotations": {name: text}}}) == rate


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("Premium", TrafficClass.PREMIUM),
        ("Expedited", TrafficClass.EXPEDITED),
        ("BestEffort", TrafficClass.BEST_EFFORT),
        ("best-effort", TrafficClass.BEST_EFFORT),
        ("none", TrafficClass.EXPEDITED),
        ("", TrafficClass.EXPEDITED),
    ],
)
def test_classes_are_mizars(text: str, rank: TrafficClass) -> None:
    assert class_of({"metadata": {"annotations": {"mizar.com/network-class": text}}}) == rank


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
    rules = PolicySet([policy], namespaces, [*gateway_peers(BACKING), web]).rules(web)
    ingress, egress = profiles(rules)
    assert ingress == TrafficProfile((TrafficRule(None, (PortRange(Protocol.TCP, 8080, 8080),)),))
    gateway = (PrefixBlock(ip_network("10.0.0.1/32")),)
    assert egress == TrafficProfile((TrafficRule(gateway, (PortRange(Protocol.UDP, 53, 53),)),))


def service(name: str, namespace: str = "default", network: str = "blue", host: str = "10.96.0.9") -> Object:
    ports = [{"name": "http", "port": 80}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": host, "ports": ports, "network": network},
    }


def test_variables_tell_of_services_beside_the_pod() -> None:
    pod: Object = {"metadata": {"namespace": "default"}, "spec": {"network": "blue"}}
    others = [service("far", "other"), service("strange", network="red"), service("headless", host="None")]
    told = environment(pod, [service("my-web"), *others])
    assert told["MY_WEB_SERVICE_HOST"] == "10.96.0.9"
    assert told["MY_WEB_SERVICE_PORT"] == told["MY_WEB_SERVICE_PORT_HTTP"] == "80"
    assert told["MY_WEB_SERVICE_PORT_DNS_UDP"] == "53"
    assert told["MY_WEB_PORT"] == told["MY_WEB_PORT_80_TCP"] == "tcp://10.96.0.9:80"
    assert told["MY_WEB_PORT_53_UDP_PROTO"] == "udp"
    assert not any(name.startswith(("FAR", "STRANGE", "HEADLESS")) for name in told)
    assert told["KUBERNETES_SERVICE_HOST"] == "kubernetes.default.svc"
    assert told["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    pod["spec"]["enableServiceLinks"] = False
    quiet = environment(pod, [service("my-web")])
    assert quiet["KUBERNETES_PORT_443_TCP_ADDR"] == "kubernetes.default.svc"
    assert not any(name.startswith("MY_WEB") for name in quiet)


def test_an_address_with_colons_is_in_brackets() -> None:
    told = service_variables(service("six", host="fd96::9"))
    assert told["SIX_PORT_80_TCP"] == "tcp://[fd96::9]:80"
    assert told["SIX_PORT_80_TCP_ADDR"] == "fd96::9"
