"""The agent ends, is killed at any point, is upgraded; the kernel drifts: traffic flows on, state converges."""

import gc
import os
import random
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, ip_address, ip_interface, ip_network
from pathlib import Path

import pytest
from msgspec.structs import replace

from alcove.dataplane import build, links, namespaces
from alcove.dataplane.apply import KEY_ONLY, read_back
from alcove.dataplane.desired import desired, gateway_name
from alcove.dataplane.errors import ProgramRejected, Unsupported
from alcove.dataplane.instance import handle_of
from alcove.dataplane.maps import PORT, MapName
from alcove.dataplane.model import (
    DataplaneService,
    DataplaneState,
    Gateway,
    NodePort,
    PrefixBlock,
    Protocol,
    ServiceBackend,
    Subnet,
    TrafficProfile,
    TrafficRule,
    Veth,
    Vpc,
)
from alcove.dataplane.namespaces import inside
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dataplane.veths import make_guarded, port_name
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, LabNode, NamespacePod
from alcove.testing.probes import TIMEOUT, connect, ping, tcp_server, udp_socket

# Forks, and watches the clock.
pytestmark = pytest.mark.alone

VNI = 9001
VIP = "172.20.0.9"


def network_on(lab: Lab) -> LabNetwork:
    """A client and a server under a policy, on the first node and the last, and a service."""
    network = LabNetwork(VNI, pods=[])
    everybody = TrafficProfile((TrafficRule((PrefixBlock(ip_network("10.0.0.0/8")),)),))
    network.pods.append(lab.nodes[0].add_pod("client", VNI, "10.0.1.11/24", ingress=TrafficProfile()))
    network.pods.append(lab.nodes[-1].add_pod("server", VNI, "10.0.1.12/24", ingress=everybody))
    backend = (ServiceBackend(ip_address("10.0.1.12"), 8080),)
    network.services = (
        DataplaneService(VNI, ip_address(VIP), 80, Protocol.TCP, backend),
        DataplaneService(VNI, ip_address(VIP), 80, Protocol.UDP, backend),
    )
    apply_networks(lab, network)
    return network


def test_a_restart_changes_nothing_and_keeps_connections(two_nodes: Lab) -> None:
    client, server = network_on(two_nodes).pods
    with tcp_server(server.namespace, server.address, 8080) as listener:
        near = connect(client.namespace, VIP, 80)
        assert near is not None
        far, _ = listener.accept()
        far.settimeout(TIMEOUT)
        for node in two_nodes.nodes:
            before = node.plane.held
            programs = node.plane.programs.ids
            node.plane.close()
            near.sendall(b"nobody is at home")
            assert far.recv(64)
            steps: list[str] = []
            node.start(checkpoint=steps.append)
            assert node.plane.held == before
            assert node.plane.programs.ids == programs
            node.apply()
            assert not [step for step in steps if "+" in step or "guard" in step], "nothing had to be written"
            near.sendall(b"somebody is")
            assert far.recv(64)
            far.sendall(b"welcome")
            assert near.recv(64) == b"welcome"
        near.close()
        far.close()


@pytest.fixture(scope="module")
def other_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same programs, but another object, as an upgrade brings it."""
    folder = tmp_path_factory.mktemp("bpf") / "bpf"
    shutil.copytree(build.sources_folder(), folder)
    (folder / "alcove.c").write_text((folder / "alcove.c").read_text() + '\nint upgraded SEC(".data") = 1;\n')
    target = folder / "alcove-upgraded.o"
    build.compile_object(folder, target)
    return target


LAST = 2**64 - 1
"""The number of the last packet."""


def test_an_upgrade_under_load_loses_no_packet(two_nodes: Lab, other_version: Path) -> None:
    client, server = network_on(two_nodes).pods
    stop = threading.Event()
    sent = 0
    with (
        udp_socket(server.namespace, server.address, 8080) as far,
        udp_socket(client.namespace, client.address) as near,
    ):
        far.setsockopt(1, 33, 64 << 20)  # SO_RCVBUFFORCE: what is lost is lost on the way
        near.connect((VIP, 80))

        def pour() -> None:
            nonlocal sent
            while not stop.is_set():
                sent += near.send(sent.to_bytes(8, "big")) // 8

        heard: list[int] = []

        def hear() -> None:
            with suppress(TimeoutError):
                while not heard or heard[-1] != LAST:
                    heard.append(int.from_bytes(far.recv(8), "big"))

        load, ear = threading.Thread(target=pour), threading.Thread(target=hear)
        load.start()
        ear.start()
        try:
            for program in (other_version, None, other_version):
                for node in two_nodes.nodes:
                    before = node.plane.programs.ids
                    node.plane.close()
                    node.start(program=program)
                    assert node.plane.programs.ids != before
                    node.apply()
        finally:
            stop.set()
            load.join()
            near.send(LAST.to_bytes(8, "big"))
            ear.join()
        assert sent > 1000
        assert heard == [*range(sent), LAST]


def test_500_veths_are_adopted_within_two_seconds(one_node: Lab) -> None:
    node = one_node.nodes[0]
    for number in range(500):
        node.add_pod(f"p{number}", VNI, f"10.0.{1 + number // 250}.{number % 250 + 2}/16")
    apply_networks(one_node, LabNetwork(VNI, pods=node.pods))
    taken = []
    for _ in range(3):  # The machine may have been busy with something else.
        node.plane.close()
        start = time.perf_counter()
        node.start()
        node.apply()
        taken.append(time.perf_counter() - start)
        assert len(node.plane.held[MapName.PORTS]) == 500
    assert min(taken) < 2, taken
    assert ping(node.pods[0].namespace, node.pods[499].address)


class Changing:
    """A node between two states: veths, policies, services, gateways and node ports come and go."""

    def __init__(self, node: LabNode) -> None:
        self.node = node
        self.first = node.make_pod("first", VNI, "10.0.1.11/24")
        self.second = node.make_pod("second", VNI, "10.0.1.12/24", rate_bytes_per_second=10_000_000)
        self.third = node.make_pod("third", VNI + 1, "10.0.1.11/24")
        self.pods = (self.first, self.second, self.third)
        node.pods += self.pods
        self.states = (self.first_state(), self.second_state())

    def base(self) -> DataplaneState:
        vnis = (VNI, VNI + 1)
        return replace(
            self.node.state,
            vpcs=tuple(Vpc(vni, (ip_network("10.0.0.0/16"),)) for vni in vnis),
            subnets=tuple(Subnet(vni, ip_network("10.0.1.0/24")) for vni in vnis),
        )

    def first_state(self) -> DataplaneState:
        policy = TrafficProfile((TrafficRule((PrefixBlock(ip_network("10.0.1.0/24")),)),))
        service = DataplaneService(
            VNI, ip_address(VIP), 80, Protocol.TCP, (ServiceBackend(ip_address("10.0.1.12"), 8080),)
        )
        gateway = Gateway(VNI, (ip_interface("10.0.1.1/24"),), IPv4Address("10.0.1.240"), egress=True)
        node_port = NodePort(VNI, self.node.address, 30000, Protocol.TCP, IPv4Address(VIP), 80)
        return replace(
            self.base(), veths=(replace(self.first.veth, ingress=policy), self.second.veth), services=(service,),
            gateways=(gateway,), node_ports=(node_port,),
        )  # fmt: skip

    def second_state(self) -> DataplaneState:
        policy = TrafficProfile(
            (TrafficRule((PrefixBlock(ip_network("10.0.0.0/16"), (ip_network("10.0.1.77/32"),)),)),)
        )
        service = DataplaneService(
            VNI, ip_address(VIP), 81, Protocol.UDP, (ServiceBackend(ip_address("10.0.1.11"), 53),)
        )
        gateway = Gateway(VNI + 1, (ip_interface("10.0.1.1/24"),))
        return replace(
            self.base(), veths=(replace(self.first.veth, egress=policy), self.third.veth), services=(service,),
            gateways=(gateway,),
        )  # fmt: skip

    def pod_of(self, veth: Veth) -> NamespacePod:
        return next(pod for pod in self.pods if pod.veth.name == veth.name)

    def go(self, plane: DataPlane, state: DataplaneState) -> None:
        """What the agent does: ports that are not there are made, then everything is applied."""
        with inside(self.node.namespace):
            there = {link.name for link in links.read_links(plane.netlink)}
            for veth in state.veths:
                ready = veth.name in there and any(one.name == veth.name for one in self.ready(plane))
                if not ready:
                    plane.add_port(veth, self.pod_of(veth).namespace)
            plane.apply(state)

    def ready(self, plane: DataPlane) -> list[Veth]:
        """Ports that have been finished: the last step of making one is its entry."""
        done = {PORT.unpack(raw)["ifindex"] for raw in plane.held[MapName.PORTS].values()}
        own = {link.name: link.index for link in links.read_links(plane.netlink)}
        return [pod.veth for pod in self.pods if own.get(pod.veth.name) in done]

    def check(self, plane: DataPlane, state: DataplaneState) -> None:
        """The kernel holds exactly the desired state: entries, links, namespaces, memories."""
        found = plane.find(state, plane.slots())
        settings = plane.settings
        wanted = desired(settings.instance, settings.node, state, found, plane.bulk, settings.node6)
        held = read_back(plane.maps)
        for name in MapName:
            if name in KEY_ONLY:
                assert set(held[name]) == set(wanted[name]), name
            else:
                assert held[name] == wanted[name], name
        instance = self.node.instance
        names = {veth.name for veth in state.veths} | {
            gateway_name(instance, one.vni) for one in state.gateways
        }
        assert set(found.links) == names
        spaces = {plane.gateways.namespace_name(one.vni) for one in state.gateways} | {
            f"alcove-{instance}-exit"
        }
        assert set(namespaces.names(f"alcove-{instance}-")) == spaces
        assert plane.memories.slots == set(found.slots.values())
        assert len(list(plane.pins.programs_folder.iterdir())) == 1
        for index in found.links.values():
            assert links.read_attached(plane.netlink, index) == plane.programs.ids["from_pod"]

    def works(self, state: DataplaneState) -> None:
        vni = VNI if state is self.states[0] else VNI + 1
        pods = [self.pod_of(veth) for veth in state.veths if veth.vni == vni]
        place = self.node.plane.gateways.open(vni)
        for pod in pods:
            assert ping(place, pod.address), pod.name
        os.close(place)


def killed_at(changing: Changing, state: DataplaneState, step: int) -> bool:
    """The agent starts, applies the state and is killed before that step. False if it exited before."""
    child = os.fork()
    if child == 0:
        left = step

        def count(_name: str) -> None:
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1

        code = 1
        try:
            changing.go(changing.node.start(checkpoint=count), state)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9)
    return code == 9


@pytest.fixture
def changing() -> Iterator[Changing]:
    with Lab(1, started=False) as lab:
        yield Changing(lab.nodes[0])


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.slow), 4], ids=["every step", "every fourth"]
)
@pytest.mark.parametrize("direction", ["from nothing", "to the second", "to the first"])
def test_killed_between_any_two_steps_the_next_run_converges(
    changing: Changing, direction: str, every: int
) -> None:
    node = changing.node
    first, second = changing.states
    start, goal = {
        "from nothing": (DataplaneState(), first),
        "to the second": (first, second),
        "to the first": (second, first),
    }[direction]
    kills = 0
    for step in range(0, 1000, every):
        plane = node.start()
        changing.go(plane, start)
        plane.close()
        was_killed = killed_at(changing, goal, step)
        plane = node.start()
        changing.go(plane, goal)
        changing.check(plane, goal)
        if step % 7 == 0:
            changing.works(goal)
        plane.close()
        if not was_killed:
            break
        kills += 1
    assert kills * every > 15, "there were steps to be killed at"


def test_drift_is_repaired(changing: Changing) -> None:
    node, state = changing.node, changing.states[0]
    plane = node.start()
    changing.go(plane, state)
    drift = random.Random(3)
    for round_ in range(6):
        for name, one in plane.maps.items():
            entries = one.items()
            doomed = [key for key in entries if drift.random() < 0.5]
            one.delete_all(doomed)
            for key in entries:
                if key not in doomed and drift.random() < 0.3 and name not in KEY_ONLY:
                    one.put(key, bytes(byte ^ 0xFF for byte in entries[key]))
        with inside(node.namespace):
            if round_ % 2:
                for index in plane._instance_links().values():
                    plane.netlink.do(links.remove_clsact(index))
            plane.netlink.do(links.remove_clsact(plane.underlay.index))
            plane.resync(state)
            changing.check(plane, state)
            assert (
                links.read_attached(plane.netlink, plane.underlay.index, handle_of(node.instance))
                == plane.programs.ids["from_underlay"]
            )
    changing.works(state)
    plane.close()


def test_a_device_that_vanished_leaves_no_entry(changing: Changing) -> None:
    node, state = changing.node, changing.states[0]
    plane = node.start()
    changing.go(plane, state)
    with inside(node.namespace):
        link = links.read_link(plane.netlink, changing.second.veth.name)
        assert link is not None
        plane.netlink.do(links.delete_link(link.index))
        plane.apply(state)
        assert len(plane.held[MapName.PORTS]) == 2
        plane.add_port(changing.second.veth, changing.second.namespace)
        plane.apply(state)
        changing.check(plane, state)
    changing.works(state)
    plane.close()


def test_a_link_whose_slot_is_used_is_created_again(changing: Changing) -> None:
    """Numbers of links that are far apart share a place."""
    node = changing.node
    plane = node.start()
    refused: list[int] = []

    def taken(index: int) -> bool:
        refused.append(index)
        return len(refused) <= 2

    name = port_name(node.instance, "unlucky")
    namespace = namespaces.make(f"{node.name}-unlucky")
    program = plane.programs.descriptors["from_pod"]
    made = make_guarded(
        plane.netlink, name, ("eth0", "0e:00:00:00:09:09"), namespace, 1500, program, lambda _: None, taken
    )
    assert len(set(refused)) == 3
    assert refused[-1] == made
    assert plane._instance_links()[name] == made
    os.close(namespace)
    with inside(node.namespace):
        plane.apply(DataplaneState())
    assert name not in plane._instance_links()
    plane.close()


def test_a_full_map_costs_only_the_entries_that_do_not_fit(changing: Changing) -> None:
    """All others are written and removed, also those of maps that come later; it is full no longer than that."""
    node, (before, state) = changing.node, changing.states
    plane = node.start()
    changing.go(plane, before)
    many = tuple(
        NodePort(VNI + 7, IPv4Address(0x0A000000 + number), 80, Protocol.TCP, IPv4Address(VIP), 80)
        for number in range(66_000)
    )
    with inside(node.namespace):
        plane.add_port(changing.third.veth, changing.third.namespace)
        [refused] = plane.apply(replace(state, node_ports=(*state.node_ports, *many)))
        assert (refused.name, str(refused.error).split(":")[0]) == (MapName.DOORS, "map doors is full")
        assert len(refused.keys) == len(many) - (65_536 - 1), "the one of the state before was still there"
    changing.works(state)
    with inside(node.namespace):
        assert plane.apply(state) == []
        changing.check(plane, state)
    plane.close()


def test_a_rejected_program_is_an_error_with_its_log_and_the_old_one_stays(
    changing: Changing, tmp_path: Path
) -> None:
    node, state = changing.node, changing.states[0]
    plane = node.start()
    changing.go(plane, state)
    folder = tmp_path / "bpf"
    shutil.copytree(build.sources_folder(), folder)
    source = folder / "from_exit.c"
    source.write_text(
        source.read_text().replace(
            "struct packet pkt = {};", "struct packet pkt = {};\n\tpkt.vni = *(__u32 *)(long)skb->data;"
        )
    )
    build.compile_object(folder, folder / "bad.o")
    plane.close()
    with pytest.raises(ProgramRejected, match="invalid access to packet"):
        node.start(program=folder / "bad.o")
    plane = node.start()
    with inside(node.namespace):
        plane.apply(state)
        changing.check(plane, state)
    changing.works(state)
    plane.close()


def test_a_missing_underlay_device_is_an_error(changing: Changing) -> None:
    node = changing.node
    node.settings = replace(node.settings, underlay="eth9")
    with pytest.raises(Unsupported, match="eth9"):
        node.start()


def test_a_network_never_inherits_anothers_memory(changing: Changing) -> None:
    """One goes as another comes, in one step."""
    node = changing.node
    first, second = changing.states
    plane = node.start()
    changing.go(plane, replace(first, gateways=()))
    memory = plane.memories.open(plane.slots()[VNI])
    memory.put(bytes(40), bytes(48))
    memory.close()
    alone = replace(second, veths=(changing.third.veth,), gateways=())
    changing.go(plane, alone)
    assert set(plane.slots()) == {VNI + 1}
    memory = plane.memories.open(plane.slots()[VNI + 1])
    assert memory.get(bytes(40)) is None
    memory.close()
    plane.close()


def test_nothing_is_left_open(changing: Changing) -> None:
    """Restarts, drops read, states applied: no descriptor stays behind."""
    node = changing.node
    plane = node.start()
    changing.go(plane, changing.states[0])
    plane.close()
    gc.collect()  # What earlier tests left open is closed with it.
    before = len(list(Path("/proc/self/fd").iterdir()))
    for state in changing.states * 2:
        plane = node.start()
        changing.go(plane, state)
        plane.drops()
        plane.network_drops()
        plane.paths()
        traffic = plane.open_traffic(VNI)
        assert traffic is not None
        traffic.flows()
        traffic.close()
        plane.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_another_layout_of_the_maps_takes_over_without_a_gap(
    two_nodes: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server = network_on(two_nodes).pods
    node = two_nodes.nodes[0]
    old = node.plane.programs.ids
    monkeypatch.setattr("alcove.dataplane.loader.layout_version", lambda: "other")
    node.plane.close()
    node.start(program=build.build())
    assert node.plane.held[MapName.PORTS] == {}
    assert ping(client.namespace, server.address), "by the old programs, as long as the new ones know nothing"
    with inside(node.namespace):
        link = links.read_link(node.plane.netlink, client.veth.name)
        assert link is not None
        assert links.read_attached(node.plane.netlink, link.index) == old["from_pod"]
        node.apply()
        assert (
            links.read_attached(node.plane.netlink, link.index)
            == node.plane.programs.ids["from_pod"]
            != old["from_pod"]
        )
    assert ping(client.namespace, server.address)
    assert [folder.name for folder in node.plane.pins.folder.glob("maps-*")] == ["maps-other"]
