"""What the soak expects of the maps of a node, computed from objects."""

from __future__ import annotations

from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

from alcove.api.objects import Object
from alcove.testing.soak_maps import ANY_NODE, ExpectedServices

VNI = 77
NODE: Any = SimpleNamespace(name="n1", address="10.249.1.2")


def endpoint(kind: str, ip: str, droplet: str) -> Object:
    return {"metadata": {}, "spec": {"type": kind, "ip": ip, "vni": VNI, "droplet": droplet}}


def pod(name: str, address: str, *, ready: bool = True, network: str = "default") -> Object:
    metadata = {"name": name, "tenant": "red", "namespace": "default", "labels": {"app": "web"}}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": metadata,
        "spec": {"network": network},
        "status": {"podIP": address, "conditions": conditions},
    }


def expected(
    spec: Object, *pods: Object, status: Object | None = None, gateway: str = ""
) -> ExpectedServices:
    metadata = {"name": "web", "tenant": "red", "namespace": "default", "uid": "s1"}
    whole = {"clusterIP": "10.96.0.20", "network": "default", "selector": {"app": "web"}, **spec}
    endpoints = [endpoint("gateway", gateway, "n1")] if gateway else []
    state: Any = SimpleNamespace(
        networks=[{"metadata": {"name": "default", "tenant": "red"}, "status": {"vni": VNI}}],
        services=[{"metadata": metadata, "spec": whole, "status": status or {}}],
        pods=pods,
        of_type=lambda kind: [each for each in endpoints if each["spec"]["type"] == kind],
    )
    return ExpectedServices(state, NODE, {VNI})


def test_a_service_has_the_ready_pods_of_its_network_as_backends() -> None:
    pods = (pod("a", "10.0.0.5"), pod("b", "10.0.0.6", ready=False), pod("c", "10.0.0.7", network="other"))
    found = expected({"ports": [{"port": 80}]}, *pods)
    assert found.entries == {(VNI, ip_address("10.96.0.20"), 80): {ip_address("10.0.0.5")}}
    assert found.doors == {} and found.external == set()


def test_a_node_port_is_open_where_the_gateway_has_an_address() -> None:
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
    assert expected(spec).doors == {}
    found = expected(spec, gateway="10.0.0.9")
    assert found.doors == {(ip_address("10.249.1.2"), 30080): VNI}
    assert (VNI, ANY_NODE, 30080) in found.entries


def test_a_balancer_of_local_pods_is_found_at_its_own_address() -> None:
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}
    found = expected(spec, status={"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}})
    outside = ip_address("198.51.100.7")
    assert found.doors == {(outside, 80): VNI}
    assert found.external == {(VNI, outside)}
    assert (VNI, outside, 80) in found.entries
