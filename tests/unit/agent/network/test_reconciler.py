"""Node ports that the node itself serves."""

from ipaddress import IPv4Address

from alcove.agent.network.reconciler import local_node_ports
from alcove.dataplane.model import (
    DataplaneState,
    NodePort,
    Protocol,
)

NODE = IPv4Address("192.0.2.1")


def test_local_node_ports_are_those_at_the_nodes_address() -> None:
    vip = IPv4Address("10.96.0.9")
    node_ports = (
        NodePort(7, NODE, 30080, Protocol.TCP, vip, 80),
        NodePort(7, NODE, 30053, Protocol.UDP, vip, 53),
        NodePort(7, IPv4Address("198.51.100.7"), 80, Protocol.TCP, vip, 80),
    )
    state = DataplaneState(node_ports=node_ports)
    assert list(local_node_ports(state, (NODE,), Protocol.UDP)) == [("192.0.2.1", 30053)]
    found = local_node_ports(state, (NODE,), Protocol.TCP)
    assert list(found) == [("192.0.2.1", 30080)]
    assert (found["192.0.2.1", 30080].address, found["192.0.2.1", 30080].port) == ("10.96.0.9", 80)
