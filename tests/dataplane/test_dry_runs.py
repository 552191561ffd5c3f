"""What the kernel says of packets that nobody sends, and that nothing of them stays."""

from contextlib import closing
from ipaddress import ip_address

import pytest

from alcove.dataplane.drops import DropReason
from alcove.dataplane.dry_run import KernelVerdict, MadePacket
from alcove.dataplane.model import DataplaneService, Protocol, ServiceBackend, TrafficProfile
from alcove.dataplane.policies import compile_profile
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod

VNI = 4101
VIP = "172.20.0.10"
NOTHING = TrafficProfile()


class Probed:
    """A client and a server on node 0, another server on node 1."""

    def __init__(self, lab: Lab) -> None:
        self.network = LabNetwork(VNI, pods=[])
        for node, name, host in ((0, "client", 11), (0, "near", 12), (1, "far", 13)):
            pod = lab.nodes[node].add_pod(name, VNI, f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
            self.network.pods.append(pod)
        self.client, self.near, self.far = self.network.pods
        self.network.services = tuple(
            DataplaneService(
                VNI, ip_address(VIP), port, Protocol.TCP, (ServiceBackend(ip_address(pod.address), 8080),), 60
            )
            for port, pod in ((80, self.far), (82, self.client))
        )
        apply_networks(lab, self.network)

    def run(self, target: str, port: int = 80, protocol: Protocol = Protocol.TCP) -> KernelVerdict:
        version = ip_address(target).version
        source = next(each.ip for each in self.client.veth.addresses if each.version == version)
        packet = MadePacket(source, ip_address(target), port, protocol)
        verdict = self.client.node.plane.dry_run(self.client.veth, packet)
        memory = self.client.node.plane.memories.open(self.client.node.plane.slots()[VNI])
        with closing(memory):
            assert memory.items() == {}, "nothing stays of the packet"
        assert self.client.node.dropped_flows(VNI) == []
        assert self.client.node.plane.open_rings([VNI], {})[VNI].count == 0
        return verdict

    def arrive(
        self, to: NamespacePod, source: NamespacePod, protocol: Protocol, at: NamespacePod | None = None
    ) -> KernelVerdict:
        """A packet from the other pod's node, at the node of `at`, by default of `to`."""
        node = (at or to).node
        packet = MadePacket(ip_address(source.address), ip_address(to.address), 53, protocol)
        sender = next(each.node.address for each in self.network.pods if each.node is not node)
        verdict = node.plane.dry_run_arrival(VNI, packet, sender)
        for plane in (pod.node.plane for pod in self.network.pods):
            with closing(plane.memories.open(plane.slots()[VNI])) as memory:
                assert memory.items() == {}, "nothing stays of the packet"
        assert node.dropped_flows(VNI) == []
        return verdict

    def police(self, pod: NamespacePod, **rules: TrafficProfile) -> None:
        pod.node.set_port(pod, **rules)
        pod.node.apply()


@pytest.fixture
def probed(two_nodes: Lab) -> Probed:
    return Probed(two_nodes)


@pytest.mark.parametrize("protocol", [Protocol.TCP, Protocol.UDP, Protocol.SCTP])
def test_a_packet_stays_on_the_node_or_goes_to_the_other(probed: Probed, protocol: Protocol) -> None:
    here, there = probed.run(probed.near.address, 53, protocol), probed.run(probed.far.address, 53, protocol)
    assert (here.is_forwarded, here.node, str(here.target), here.port) == (
        True,
        None,
        probed.near.address,
        53,
    )
    assert (there.is_forwarded, there.node) == (True, probed.far.node.address)
    assert (str(there.target), there.port) == (probed.far.address, 53)
    six = probed.run(probed.far.address6, 53, protocol)
    assert (six.node, str(six.target)) == (probed.far.node.address, probed.far.address6)


@pytest.mark.parametrize("protocol", [Protocol.TCP, Protocol.UDP, Protocol.SCTP])
def test_a_packet_from_another_node_arrives_or_is_denied(probed: Probed, protocol: Protocol) -> None:
    here, there = (
        probed.arrive(probed.near, probed.far, protocol),
        probed.arrive(probed.far, probed.near, protocol),
    )
    assert here.is_forwarded and there.is_forwarded
    assert (here.node, str(here.target), here.port, str(here.source)) == (
        None, probed.near.address, 53, probed.far.address,
    )  # fmt: skip
    probed.police(probed.near, ingress=NOTHING)
    denied = probed.arrive(probed.near, probed.far, protocol)
    assert denied.drop is not None and denied.drop.reason is DropReason.POLICY_INGRESS
    assert denied.drop.policy == compile_profile(NOTHING).name


def test_a_packet_that_a_node_lacks_the_endpoint_of_is_passed_on_without_a_notice(probed: Probed) -> None:
    """A relay notifies the sender, which remembers the endpoint's node; of a packet that nobody has sent it must not."""
    verdict = probed.arrive(probed.far, probed.client, Protocol.TCP, at=probed.near)
    assert verdict.is_forwarded and verdict.node == probed.far.node.address


def test_a_service_becomes_its_backend(probed: Probed) -> None:
    verdict = probed.run(VIP)
    assert (verdict.is_forwarded, str(verdict.target), verdict.port) == (True, probed.far.address, 8080)
    assert verdict.node == probed.far.node.address
    assert str(probed.run(VIP, 82).target) == probed.client.address, "a pod that is its own backend"
    unknown = probed.run(VIP, 81)
    assert not unknown.is_forwarded and unknown.drop is not None


def test_a_denial_has_its_reason_and_profile(probed: Probed) -> None:
    probed.police(probed.client, egress=NOTHING)
    denied = probed.run(probed.near.address)
    assert not denied.is_forwarded and denied.drop is not None
    assert (denied.drop.reason, denied.drop.policy) == (
        DropReason.POLICY_EGRESS,
        compile_profile(NOTHING).name,
    )
    probed.police(probed.near, ingress=NOTHING)
    probed.client.node.set_port(probed.client, egress=None)
    probed.client.node.apply()
    refused = probed.run(probed.near.address)
    assert refused.drop is not None and refused.drop.reason is DropReason.POLICY_INGRESS
    lost = probed.run("10.0.1.99")
    assert lost.drop is not None and lost.drop.reason is DropReason.NO_ENDPOINT
