"""Node ports: the names that claim them, which services have and lack them, and how many a tenant may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api import names, node_ports
from alcove.api.objects import Object


@given(st.integers(1, 65535), st.sampled_from(["TCP", "UDP", "SCTP"]))
def test_a_port_is_read_back_from_its_name(port: int, protocol: str) -> None:
    name = node_ports.claim_name(port, protocol)
    assert not names.dns_subdomain(name)
    assert node_ports.claimed_port(name) == (port, protocol)


@pytest.mark.parametrize(
    "name", ["port-030080-tcp", "port-30080-icmp", "port--tcp", "port-30080-TCP", "4711-10.0.1.12"]
)
def test_other_names_claim_no_port(name: str) -> None:
    assert node_ports.claimed_port(name) is None


def spec(kind: str, *ports: Object, **more: object) -> Object:
    return {"type": kind, "ports": list(ports), **more}


WITH, WITHOUT = {"port": 80, "nodePort": 30080}, {"port": 81}
LOCAL = {"externalTrafficPolicy": "Local"}


@pytest.mark.parametrize(
    ("service", "held", "lacks"),
    [
        (spec("ClusterIP", WITHOUT), set(), False),
        (spec("ExternalName"), set(), False),
        (spec("NodePort", WITH), {(30080, "TCP")}, False),
        (spec("NodePort", WITH, WITHOUT), {(30080, "TCP")}, True),
        (spec("NodePort", {**WITH, "protocol": "UDP"}), {(30080, "UDP")}, False),
        (spec("LoadBalancer", WITHOUT), set(), True),
        (spec("LoadBalancer", WITH, WITHOUT, allocateLoadBalancerNodePorts=False), {(30080, "TCP")}, False),
        (spec("LoadBalancer", WITH, **LOCAL), {(30080, "TCP")}, True),
        (
            spec("LoadBalancer", WITH, healthCheckNodePort=30081, **LOCAL),
            {(30080, "TCP"), (30081, "TCP")},
            False,
        ),
        (spec("NodePort", WITH, healthCheckNodePort=30081, **LOCAL), {(30080, "TCP")}, False),
    ],
)
def test_a_service_has_and_lacks_ports_by_its_type(
    service: Object, held: set[tuple[int, str]], lacks: bool
) -> None:
    assert node_ports.held_ports(service) == held
    assert node_ports.lacks_port(service) is lacks


def test_the_limit_is_ring0s_to_change() -> None:
    usual = node_ports.NODE_PORTS_PER_TENANT_MAX
    assert node_ports.limit_of(None) == usual
    assert node_ports.limit_of({"spec": {"quota": {"hard": {"pods": "3"}}}}) == usual
    assert node_ports.limit_of({"spec": {"quota": {"hard": {"services.nodeports": "many"}}}}) == usual
    assert node_ports.limit_of({"spec": {"quota": {"hard": {"services.nodeports": "1k"}}}}) == 1000
