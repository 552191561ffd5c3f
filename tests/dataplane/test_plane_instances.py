"""Instances come and go: nothing is left behind, and two of them share a machine's one namespace."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, ip_address, ip_interface, ip_network

import pytest
from msgspec.structs import replace

from alcove.dataplane import instance, namespaces
from alcove.dataplane.errors import Unsupported
from alcove.dataplane.model import (
    DataplaneNetwork,
    DataplaneService,
    DataplaneSettings,
    DataplaneState,
    Gateway,
    NodePort,
    Protocol,
    ServiceBackend,
    Subnet,
    Veth,
    Vpc,
)
from alcove.dataplane.namespaces import inside
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dataplane.veths import port_name
from alcove.testing.nodes import BPF_ROOT, UNDERLAY, Lab, LabNode
from alcove.testing.probes import IMPATIENT, tcp_server, tcp_talks

OUTSIDE = "203.0.113.5"
VNI = 4200
VIP = IPv4Address("172.20.0.80")
LISTS: tuple[str, ...] = (
    "ip -o link show",
    "ip route show table all",
    "ip -6 route show table all",
    "tc qdisc show",
)
LISTS += (
    "tc filter show dev eth0 ingress",
    "tc filter show dev eth0 egress",
    "nft list ruleset",
    "ip rule show",
)


LATE = ("fe80::", "ff00::/8")
"""Link-local addresses and the route of multicast come in the kernel's own time."""
LAGGING = re.compile(r" state \S+| linkdown")
"""What the kernel says of a link's carrier, up to a second after it has changed."""


def everything_in(node: LabNode) -> dict[str, str]:
    """What the node's kernel holds, as its own tools show; and names and pins of the lab's instances."""
    found = {}
    for command in LISTS:
        words = ["nsenter", f"--net=/run/netns/{node.name}", *command.split()]
        message = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        lines = (
            LAGGING.sub("", line) for line in message.splitlines() if not any(each in line for each in LATE)
        )
        found[command] = "\n".join(lines)
    found["namespaces"] = " ".join(namespaces.names(f"alcove-{node.lab.token}"))
    found["pins"] = " ".join(sorted(path.name for path in BPF_ROOT.iterdir()))
    return found


class Tenant:
    """An instance with one pod that has a node port and egress."""

    def __init__(self, node: LabNode, name: str, number: int) -> None:
        self.node, self.name = node, name
        self.settings = DataplaneSettings(
            name, node.address, "eth0", tunnel_port=4789 + number,
            nat_ports=(20000 + 1000 * number, 20999 + 1000 * number), underlay_bytes_per_second=10**9,
        )  # fmt: skip
        self.place = f"{node.name}-{name}"
        self.namespace = namespaces.make(self.place)
        self.veth = Veth(
            port_name(name, "pod"), VNI, f"0e:00:00:00:07:{number:02x}", (ip_interface("10.0.1.11/24"),),
            (ip_address("10.0.1.1"),),
        )  # fmt: skip
        self.state = DataplaneState(
            networks=(DataplaneNetwork(VNI, (ip_network("172.20.0.0/16"),)),),
            vpcs=(Vpc(VNI, (ip_network("10.0.0.0/16"),)),),
            subnets=(Subnet(VNI, ip_network("10.0.1.0/24")),),
            veths=(self.veth,),
            services=(
                DataplaneService(
                    VNI, VIP, 80, Protocol.TCP, (ServiceBackend(ip_address("10.0.1.11"), 8080),)
                ),
            ),
            gateways=(Gateway(VNI, (ip_interface("10.0.1.1/24"),), IPv4Address("10.0.1.240"), egress=True),),
            node_ports=(NodePort(VNI, node.address, 30080 + number, Protocol.TCP, VIP, 80),),
            forbidden=(UNDERLAY,),
        )
        self.node_port = 30080 + number

    def start(self) -> DataPlane:
        with inside(self.node.namespace):
            self.plane = DataPlane(self.settings, bpf_root=BPF_ROOT)
            self.plane.add_port(self.veth, self.namespace)
            self.plane.apply(self.state)
        return self.plane

    def works(self, outside: int) -> bool:
        """Whether egress and the node port work."""
        with tcp_server(outside, OUTSIDE, 80) as out, tcp_server(self.namespace, "10.0.1.11", 8080) as web:
            address = str(self.node.address)
            return tcp_talks(self.namespace, OUTSIDE, 80, out) and tcp_talks(
                outside, address, self.node_port, web
            )


@contextmanager
def machine(*names: str) -> Iterator[tuple[LabNode, int, list[Tenant]]]:
    """One node, as a machine's own namespace; the instances, named after the lab, are not started yet."""
    with Lab(1, started=False) as lab:
        node, outside = lab.nodes[0], lab.add_host("outside", f"{OUTSIDE}/24")
        tenants = [Tenant(node, lab.token + name, number) for number, name in enumerate(names)]
        try:
            yield node, outside, tenants
        finally:
            with inside(node.namespace):
                for one in tenants:
                    instance.remove(one.name, "eth0", BPF_ROOT)
                    os.close(one.namespace)


@pytest.mark.parametrize("how", ["destroyed", "removed by name after a kill"])
def test_an_instance_that_is_gone_leaves_nothing(how: str) -> None:
    with machine("") as (node, outside, (one,)):
        before = everything_in(node)
        plane = one.start()
        assert one.works(outside)
        assert {key for key, message in everything_in(node).items() if message != before[key]} > {
            "pins",
            LISTS[3],
        }
        with inside(node.namespace):
            if how == "destroyed":
                plane.destroy()
            else:
                plane.close()
                instance.remove(one.name, "eth0", BPF_ROOT)
        assert everything_in(node) == before
        with inside(node.namespace):
            instance.remove(one.name, "eth0", BPF_ROOT)


def test_two_instances_share_a_machine() -> None:
    """Of the same networks' numbers and addresses, their names alike, on one device."""
    with machine("p", "") as (node, outside, (one, other)):
        before = everything_in(node)
        one.start()
        alone = everything_in(node)
        other.start()
        assert one.works(outside)
        assert other.works(outside)
        with inside(node.namespace):
            other.plane.resync(other.state)
            one.plane.resync(one.state)
        assert one.works(outside)
        assert other.works(outside)
        with inside(node.namespace):
            other.plane.destroy()
        assert one.works(outside)
        assert everything_in(node) == alone
        with tcp_server(other.namespace, "0.0.0.0", 8080) as web:
            assert not tcp_talks(outside, str(node.address), other.node_port, web, timeout=IMPATIENT)
        with inside(node.namespace):
            one.plane.destroy()
        assert everything_in(node) == before


def test_a_tunnel_port_that_is_taken_is_named() -> None:
    with machine("", "p") as (_node, _world, (one, other)):
        one.start()
        other.settings = replace(other.settings, tunnel_port=one.settings.tunnel_port)
        with pytest.raises(Unsupported, match="UDP port 4789 is used by another VXLAN device"):
            other.start()
