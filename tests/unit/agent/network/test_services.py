"""Services of the data plane, by tables of a service, its EndpointSlices and its grants."""

import tracemalloc
from ipaddress import IPv4Address, ip_address, ip_interface, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.services import (
    NodePerspective,
    ServiceGrant,
    affinity_seconds,
    demand,
    granted,
    served,
)
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.services.types import SOURCE_RANGES_ANNOTATION
from alcove.api.objects import Object
from alcove.dataplane.model import DataplaneService, NodePort, Protocol, ServiceBackend, Subnet, Vpc
from alcove.network.endpoints import EndpointAllocation
from alcove.network.owners import TenantNetworkId

NODE = IPv4Address("192.0.2.1")
OUTSIDE = IPv4Address("198.51.100.7")
VIP = IPv4Address("10.96.0.20")
SERVICES = ip_network("10.96.0.0/24")
HERE, FAR = ip_address("10.0.0.5"), ip_address("10.0.0.9")
GRANT = ServiceGrant(frozenset(((30080, "TCP"),)), frozenset((OUTSIDE,)))


def place(tenant: str = "acme", **more: Any) -> NodePerspective:
    prefix = ip_network("10.0.0.0/24")
    backing = NetworkBacking(
        TenantNetworkId(TenantId(tenant), "blue"),
        Vpc(7, (prefix,)),
        (Subnet(7, prefix),),
        (ip_interface("10.0.0.1/24"),),
    )
    return NodePerspective(
        backing, (SERVICES,), (NODE,), frozenset((HERE,)), **{"has_node_address": True, **more}
    )


def service(name: str = "web", namespace: str = "default", **spec: Any) -> Object:
    given = {
        "clusterIP": str(VIP),
        "clusterIPs": [str(VIP)],
        "ports": [{"port": 80}],
        "network": "blue",
        **spec,
    }
    return {"metadata": {"name": name, "namespace": namespace, "uid": "u"}, "spec": given}


def part(*endpoints: tuple[str, Object], **more: Any) -> Object:
    return {
        "addressType": "IPv4",
        "ports": [{"port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [address], "conditions": conditions} for address, conditions in endpoints
        ],
        **more,
    }


READY, AWAY = {"ready": True}, {"ready": False}
ENDING = {"ready": False, "serving": True, "terminating": True}
ENDED = {"ready": False, "serving": False, "terminating": True}
BOTH = part((str(HERE), READY), (str(FAR), READY))


def backends(*addresses: Any) -> tuple[ServiceBackend, ...]:
    return tuple(sorted(ServiceBackend(each, 8080) for each in addresses))


@pytest.mark.parametrize(
    ("slices", "spec", "expected"),
    [
        ([BOTH], {}, (HERE, FAR)),
        ([], {}, ()),
        ([part((str(HERE), READY)), part((str(FAR), READY))], {}, (HERE, FAR)),
        ([part((str(HERE), {}))], {}, (HERE,)),
        ([part((str(HERE), AWAY), (str(FAR), READY))], {}, (FAR,)),
        ([part((str(HERE), AWAY))], {}, ()),
        ([part((str(HERE), ENDING), (str(FAR), READY))], {}, (FAR,)),
        ([part((str(HERE), ENDING), (str(FAR), AWAY))], {}, (HERE,)),
        ([part((str(HERE), ENDED))], {}, ()),
        ([BOTH], {"internalTrafficPolicy": "Local"}, (HERE,)),
        ([part((str(FAR), READY))], {"internalTrafficPolicy": "Local"}, ()),
        ([part((str(HERE), ENDING), (str(FAR), READY))], {"internalTrafficPolicy": "Local"}, (HERE,)),
        ([BOTH], {"trafficDistribution": "PreferSameNode"}, (HERE,)),
        ([part((str(HERE), ENDING), (str(FAR), READY))], {"trafficDistribution": "PreferSameNode"}, (FAR,)),
        ([part((str(FAR), READY))], {"trafficDistribution": "PreferSameNode"}, (FAR,)),
        ([part(("web.example", READY), addressType="FQDN")], {}, ()),
        ([part((str(HERE), READY), ports=[{"port": 8080, "name": "other"}])], {}, ()),
        ([part((str(HERE), READY), ports=[{"port": 8080, "protocol": "UDP"}])], {}, ()),
        ([part(("fd00::5", READY), addressType="IPv6")], {}, ()),
    ],
)
def test_backends(slices: list[Object], spec: Object, expected: tuple[Any, ...]) -> None:
    found = served(place(), service(**spec), slices, GRANT)
    assert found.services == (DataplaneService(7, VIP, 80, Protocol.TCP, backends(*expected)),)
    assert not found.node_ports


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIP": "10.96.1.20", "clusterIPs": ["10.96.1.20"]},
        {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]},
        {"clusterIP": "fd96::20", "clusterIPs": ["fd96::20"]},
        {"clusterIP": "None", "clusterIPs": ["None"]},
        {"clusterIP": "", "clusterIPs": []},
    ],
)
def test_an_address_outside_the_networks_ranges_for_services_is_not_used(spec: Object) -> None:
    assert not served(place(), service(**spec), [BOTH], GRANT).services


@pytest.mark.parametrize(
    ("name", "namespace", "port", "expected"),
    [
        ("kube-dns-blue", "kube-system", {"port": 53, "protocol": "UDP"}, 53),
        ("kube-dns-blue", "kube-system", {"port": 53}, 53),
        ("kubernetes-blue", "default", {"port": 443, "targetPort": 6443}, 6443),
    ],
)
def test_a_networks_own_services_are_in_its_gateway(
    name: str, namespace: str, port: Object, expected: int
) -> None:
    forged = part((str(FAR), READY))
    [found] = served(place(), service(name, namespace, ports=[port]), [forged], GRANT).services
    assert found.backends == (ServiceBackend(ip_address("10.0.0.1"), expected),)


NODE_PORT: Object = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
BALANCED: Object = {
    "type": "LoadBalancer",
    "ports": [{"port": 80}],
}
INGRESS = {"loadBalancer": {"ingress": [{"ip": str(OUTSIDE)}]}}


def node_ports_of(
    spec: Object, status: Object | None = None, grant: ServiceGrant = GRANT, **more: Any
) -> tuple[NodePort, ...]:
    obj = service(**spec)
    obj["status"] = status or {}
    return served(place(**more), obj, [BOTH], grant).node_ports


def test_a_node_port_leads_to_the_services_address() -> None:
    assert node_ports_of(NODE_PORT) == (NodePort(7, NODE, 30080, Protocol.TCP, VIP, 80),)


def test_without_a_gateway_address_only_local_node_ports_are_open() -> None:
    assert node_ports_of(NODE_PORT, has_node_address=False) == ()
    assert node_ports_of({**NODE_PORT, "externalTrafficPolicy": "Local"}, has_node_address=False)


@pytest.mark.parametrize(
    "spec",
    [
        {**NODE_PORT, "ports": [{"port": 80, "nodePort": 30081}]},
        {**NODE_PORT, "ports": [{"port": 80, "nodePort": 30080, "protocol": "UDP"}]},
        {**NODE_PORT, "type": "ClusterIP"},
    ],
)
def test_a_node_port_that_is_not_the_services_is_closed(spec: Object) -> None:
    assert node_ports_of(spec) == ()


def test_a_load_balancers_address_works_if_ring0_granted_it() -> None:
    assert node_ports_of(BALANCED, INGRESS) == (NodePort(7, OUTSIDE, 80, Protocol.TCP, VIP, 80),)
    assert node_ports_of(BALANCED, INGRESS, ServiceGrant(outside=frozenset((VIP,)))) == ()
    proxied = {"loadBalancer": {"ingress": [{"ip": str(OUTSIDE), "ipMode": "Proxy"}, {"hostname": "x"}]}}
    assert node_ports_of(BALANCED, proxied) == ()


@pytest.mark.parametrize(
    ("spec", "annotations", "clients"),
    [
        ({}, {}, None),
        ({"loadBalancerSourceRanges": [" 203.0.113.0/24 ", "fd00::/8"]}, {}, ("203.0.113.0/24", "fd00::/8")),
        ({}, {SOURCE_RANGES_ANNOTATION: "203.0.113.0/24, 10.0.0.0/8"}, ("203.0.113.0/24", "10.0.0.0/8")),
        ({}, {SOURCE_RANGES_ANNOTATION: " "}, None),
        (
            {"loadBalancerSourceRanges": ["192.0.2.0/24"]},
            {SOURCE_RANGES_ANNOTATION: "::/0"},
            ("192.0.2.0/24",),
        ),
    ],
)
def test_source_ranges_bind_the_load_balancers_addresses_but_no_node_port(
    spec: Object, annotations: Object, clients: tuple[str, ...] | None
) -> None:
    obj = service(**{**BALANCED, "ports": NODE_PORT["ports"], **spec})
    obj["metadata"]["annotations"], obj["status"] = annotations, INGRESS
    found = served(place(), obj, [BOTH], GRANT)
    expected = tuple(ip_network(each) for each in clients) if clients is not None else None
    assert {each.address: each.clients for each in found.node_ports} == {NODE: None, OUTSIDE: expected}
    needed = demand(place(), obj, [BOTH], GRANT)
    assert needed.amounts == (6, 2 + len(clients or ())), "the ranges count in the tenant's share"


def test_external_addresses_must_be_granted_by_ring0() -> None:
    spec = {"externalIPs": ["198.51.100.7", "192.0.2.1"]}
    assert [node_port.address for node_port in node_ports_of(spec)] == [OUTSIDE]
    trusted = node_ports_of(spec, tenant=SYSTEM)
    assert [node_port.address for node_port in trusted] == [OUTSIDE, NODE]


def test_local_traffic_policy_has_local_backends_and_keeps_the_client() -> None:
    obj = service(**NODE_PORT, externalTrafficPolicy="Local")
    found = served(place(), obj, [BOTH], GRANT)
    assert found.node_ports == (NodePort(7, NODE, 30080, Protocol.TCP, NODE, 30080, keep_client=True),)
    assert found.services == (
        DataplaneService(7, VIP, 80, Protocol.TCP, backends(HERE, FAR)),
        DataplaneService(7, IPv4Address("0.0.0.0"), 30080, Protocol.TCP, backends(HERE, FAR)),
        DataplaneService(7, NODE, 30080, Protocol.TCP, backends(HERE)),
    )
    assert found.prefixes == (ip_network("192.0.2.1/32"),)
    assert demand(place(), obj, [BOTH], GRANT).is_local


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 0),
        ({"sessionAffinity": "None"}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}, 60),
    ],
)
def test_affinity(spec: Object, seconds: int) -> None:
    assert affinity_seconds(spec) == seconds
    [found] = served(place(), service(**spec), [BOTH], GRANT).services
    assert found.affinity_seconds == seconds


def test_grants_are_read_from_allocations() -> None:
    def holding(kind: str, address: Any = None, port: Any = None) -> EndpointAllocation:
        return EndpointAllocation("n", kind, "u", None, 7, address, node_port=port)

    found = granted(
        [
            holding("door", None, (30080, "TCP")),
            holding("door", OUTSIDE),
            holding("simple", HERE),
        ]
    )
    assert found == GRANT


HEALTH = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30099}
HEALTH_GRANT = ServiceGrant(frozenset(((30099, "TCP"),)))
TWO_PORTS = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
SLICE_PORTS = [{"port": 8080, "name": "a"}, {"port": 8081, "name": "b"}]


@pytest.mark.parametrize(
    ("slices", "spec", "grant", "endpoints"),
    [
        ([BOTH], {}, HEALTH_GRANT, 1),
        ([part((str(FAR), READY))], {}, HEALTH_GRANT, 0),
        ([part((str(HERE), AWAY))], {}, HEALTH_GRANT, 0),
        ([part((str(HERE), ENDING))], {}, HEALTH_GRANT, 0),
        ([], {}, HEALTH_GRANT, 0),
        ([part((str(HERE), READY), ports=SLICE_PORTS)], {"ports": TWO_PORTS}, HEALTH_GRANT, 1),
        ([BOTH], {}, GRANT, None),
        ([BOTH], {"externalTrafficPolicy": "Cluster"}, HEALTH_GRANT, None),
        ([BOTH], {"type": "NodePort"}, HEALTH_GRANT, None),
    ],
)
def test_health_checks_count_ready_endpoints_on_this_node(
    slices: list[Object], spec: Object, grant: ServiceGrant, endpoints: int | None
) -> None:
    found = served(place(), service(**{**HEALTH, **spec}), slices, grant).health_check
    assert (found.local_endpoints if found is not None else None) == endpoints
    if found is not None:
        assert (found.port, found.tenant, found.namespace, found.name) == (30099, "acme", "default", "web")


ENDPOINTS = st.tuples(st.integers(1, 40), st.sampled_from((READY, {}, AWAY, ENDING, ENDED)))
NAMES = st.sampled_from(("", "a", "b"))


@given(
    st.lists(st.tuples(st.lists(ENDPOINTS, max_size=6), st.lists(NAMES, max_size=3)), max_size=4),
    st.lists(NAMES, max_size=4),
    st.sampled_from(
        ({}, {"internalTrafficPolicy": "Local"}, {"type": "NodePort"}, {"externalIPs": [str(OUTSIDE)]})
    ),
)
def test_what_a_service_needs_is_counted_without_computing_it(
    drawn: list[tuple[list[tuple[int, Object]], list[str]]], names: list[str], spec: Object
) -> None:
    slices = [
        part(
            *((f"10.0.{index}.{number}", conditions) for number, conditions in dict(endpoints).items()),
            ports=[{"name": name, "port": 8080} for name in dict.fromkeys(has)],
        )
        for index, (endpoints, has) in enumerate(drawn)
    ]
    ports = [
        {"name": name, "port": 80 + number, "nodePort": 30080}
        for number, name in enumerate(dict.fromkeys(names))
    ]
    obj = service(ports=ports, **spec)
    needed, found = demand(place(), obj, slices, GRANT), served(place(), obj, slices, GRANT)
    entries = sum(1 + len(each.backends) for each in found.services)
    assert needed.amounts[1] == len(found.node_ports)
    if needed.is_local:
        assert entries <= needed.amounts[0]
    else:
        assert entries == needed.amounts[0]


def test_ports_times_endpoints_of_a_giant_are_counted_at_once() -> None:
    """They would take minutes and gigabytes to compute."""
    ports = [{"name": f"p{number}", "port": 1 + number} for number in range(20_000)]
    endpoints = [{"addresses": [f"10.{n}.0.{m}" for m in range(100)]} for n in range(1_000)]
    tracemalloc.start()
    needed = demand(place(), service(ports=ports), [part(ports=ports, endpoints=endpoints)], GRANT)
    assert needed.amounts == (20_000 * 100_001, 0)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_an_endpoint_in_two_slices_is_one_backend() -> None:
    found = served(place(), service(), [BOTH, part((str(HERE), READY))], GRANT)
    assert found.services[0].backends == backends(HERE, FAR)
