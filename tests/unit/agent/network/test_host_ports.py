"""Host ports of pods, as the data plane serves them."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest

from alcove.agent.ingress.local_node_ports import LocalService
from alcove.agent.network import host_ports
from alcove.agent.network.attachment import Attachment
from alcove.agent.network.attachment_records import AttachmentRecord, HostPort, VethRecord
from alcove.agent.podkey import PodKey
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.dataplane.model import DataplaneService, NodePort, Protocol, ServiceBackend, TrafficClass
from alcove.network.owners import TenantNetworkId

KEY = PodKey(HOME, SYSTEM, "default", "web", "u")
NODES = (IPv4Address("192.0.2.1"), IPv6Address("2001:db8::1"))
POD = (IPv4Address("10.0.0.5"), IPv6Address("fd00::5"))


def pod(**port: Any) -> Object:
    return {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, **port}]}]}}


def record(*ports: HostPort) -> AttachmentRecord:
    veth = VethRecord(
        "v", 7, "m", ("10.0.0.5/24", "fd00::5/64"), ("10.0.0.1", "fd00::1"), 0, TrafficClass.EXPEDITED, "eth0"
    )
    network = TenantNetworkId(SYSTEM, "default")
    return AttachmentRecord(KEY, network, "n", "vpc", Attachment("", ()), (veth,), host_ports=ports)


def test_only_trusted_pods_have_host_ports() -> None:
    wanted = pod(hostPort=8080)
    assert host_ports.wanted(wanted, is_trusted=True) == (HostPort(8080, "TCP", 80),)
    assert host_ports.wanted(pod(), is_trusted=True) == ()
    assert host_ports.wanted({"spec": {**wanted["spec"], "hostNetwork": True}}, is_trusted=True) == ()
    assert host_ports.wanted(wanted, is_trusted=False) == ()


@pytest.mark.parametrize(
    ("host_ip", "nodes"),
    [
        ("", NODES),
        ("0.0.0.0", NODES),
        ("192.0.2.1", NODES[:1]),
        ("2001:db8::1", NODES[1:]),
        ("127.0.0.1", ()),
    ],
)
def test_a_host_port_leads_from_the_nodes_addresses_to_the_pod(host_ip: str, nodes: tuple[Any, ...]) -> None:
    found = list(host_ports.served([record(HostPort(53, "UDP", 5353, host_ip))], NODES))
    expected = []
    for node in nodes:
        backend = ServiceBackend(POD[0] if node.version == 4 else POD[1], 5353)
        service = DataplaneService(7, ip_address(node), 53, Protocol.UDP, (backend,))
        expected.append((service, NodePort(7, node, 53, Protocol.UDP, node, 53, keep_client=True)))
    assert found == expected
    assert not list(host_ports.served([record()], NODES))


@pytest.mark.parametrize(
    ("host_ip", "addresses"),
    [
        ("", {"192.0.2.1", "2001:db8::1", "127.0.0.1", "::1"}),
        ("0.0.0.0", {"192.0.2.1", "2001:db8::1", "127.0.0.1", "::1"}),
        ("192.0.2.1", {"192.0.2.1"}),
        ("127.0.0.1", {"127.0.0.1"}),
        ("127.0.0.9", {"127.0.0.9"}),
        ("198.51.100.7", set()),
    ],
)
def test_processes_on_the_node_find_host_ports_at_its_loopback_addresses_as_well(
    host_ip: str, addresses: set[str]
) -> None:
    records = [record(HostPort(53, "UDP", 5353, host_ip))]
    found = host_ports.local(records, NODES, Protocol.UDP)
    four = LocalService(7, "10.0.0.5", 5353, "10.0.0.1")
    six = LocalService(7, "fd00::5", 5353, "fd00::1")
    assert found == {(each, 53): six if ":" in each else four for each in addresses}
    assert host_ports.local(records, NODES, Protocol.TCP) == {}
