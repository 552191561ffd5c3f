"""Several nodes on one machine: each is a network namespace on an underlay bridge, with its own data plane. A
node can be disconnected, slowed or killed. Everything is removed at the end of the block, also after errors.
"""

import atexit
import os
import secrets
import string
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface, ip_network
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from alcove.agent import mount_calls
from alcove.dataplane import links, namespaces
from alcove.dataplane.address import Prefix
from alcove.dataplane.apply import Checkpoint
from alcove.dataplane.drops import DropReason
from alcove.dataplane.flows import ObservedDrop, ObservedFlow
from alcove.dataplane.maps import PathTaken
from alcove.dataplane.model import DataplaneSettings, DataplaneState, Interface, Veth
from alcove.dataplane.namespaces import inside
from alcove.dataplane.netlink import Netlink, NetlinkRequest
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dataplane.veths import port_name
from alcove.testing import needs
from alcove.testing.probes import ping

UNDERLAY, UNDERLAY6 = IPv4Network("192.168.77.0/24"), IPv6Network("fd77::/64")
BPF_ROOT = Path(f"/run/alcove-lab-{os.getpid()}")
"""The BPF file system of this process, unmounted at exit."""
MTU = 1550
"""Leaves pods the usual 1500."""


@cache
def mount() -> None:
    """Mounts the BPF file system of this process's nodes until exit. Removes those of killed processes."""
    for left in BPF_ROOT.parent.glob("alcove-lab-*"):
        if not Path("/proc", left.name.rpartition("-")[2]).exists():
            _unmount(left)
    namespaces.mount_bpf(BPF_ROOT)
    atexit.register(_unmount, BPF_ROOT)


def _unmount(path: Path) -> None:
    """The kernel removes the pins with the last user of the file system."""
    mount_calls.unmount(path)
    with suppress(FileNotFoundError):
        path.rmdir()


def claim_token(form: str) -> str:
    """Three letters that no other test on this machine has. The namespace whose name `form` makes of them is taken by an
    empty file: two tests with the same name would share the namespace."""
    namespaces.FOLDER.mkdir(parents=True, exist_ok=True)
    while True:
        token = "".join(secrets.choice(string.ascii_lowercase) for _ in range(3))
        with suppress(FileExistsError):
            namespaces.path_of(form.format(token)).touch(exist_ok=False)
            return token


def lacking() -> str:
    """Why nodes cannot be created on this machine. Empty if they can."""
    return needs.namespaces() or needs.bpf() or needs.tools("nft", "nsenter", "tc")


def plain_bridges(filtered: bool = False) -> None:
    """Sets whether bridged frames pass netfilter in the calling thread's namespace."""
    for family in ("ip", "ip6", "arp"):
        setting = Path(f"/proc/sys/net/bridge/bridge-nf-call-{family}tables")
        if setting.exists():
            setting.write_text(str(int(filtered)))


class NamespacePod:
    """A network namespace with a veth of a node."""

    def __init__(self, node: "LabNode", name: str, namespace: int, veth: Veth) -> None:
        self.node = node
        self.name = name
        self.namespace = namespace
        self.veth = veth

    @property
    def address(self) -> str:
        return str(self.veth.addresses[0].ip)

    @property
    def address6(self) -> str:
        return next(str(one.ip) for one in self.veth.addresses if one.version == 6)


class LabNode:
    def __init__(self, lab: "Lab", number: int) -> None:
        self.lab = lab
        self.number = number
        self.instance = f"{lab.token}{number}"
        self.name = f"lab-{lab.token}-{number}"
        self.address = IPv4Address(UNDERLAY.network_address + 10 + number)
        self.address6 = IPv6Address(UNDERLAY6.network_address + 16 + number)
        self.namespace = namespaces.make(self.name)
        self.pods: list[NamespacePod] = []
        self.state = DataplaneState(forbidden=(UNDERLAY, UNDERLAY6))
        self._connect()
        self.settings = DataplaneSettings(self.instance, self.address, "eth0", node6=self.address6)

    def _connect(self) -> None:
        with inside(self.lab.underlay):
            uplink = Netlink()
            mac = f"0e:00:00:00:00:{self.number:02x}"
            uplink.do(
                links.veth(
                    f"n{self.number}", f"0e:00:00:00:01:{self.number:02x}", "eth0", mac, self.namespace, MTU
                )
            )
            bridge, port = links.read_link(uplink, "br"), links.read_link(uplink, f"n{self.number}")
            assert bridge and port
            uplink.do(links.set_link(port.index, master=bridge.index))
            uplink.close()
        with inside(self.namespace):
            own = Netlink()
            device, loopback = links.read_link(own, "eth0"), links.read_link(own, "lo")
            assert device and loopback
            own.do(links.add_address(device.index, self.address, UNDERLAY.prefixlen))
            own.do(links.add_address(device.index, self.address6, UNDERLAY6.prefixlen))
            own.do(links.set_link(device.index), links.set_link(loopback.index))
            own.close()

    def start(self, checkpoint: Checkpoint | None = None, **more: Any) -> DataPlane:
        """Starts the node's data plane, new or existing."""
        if checkpoint is not None:
            more["checkpoint"] = checkpoint
        with inside(self.namespace):
            self.plane = DataPlane(self.settings, bpf_root=BPF_ROOT, **more)
        return self.plane

    def make_pod(self, name: str, vni: int, *addresses: str, **more: Any) -> NamespacePod:
        """Creates the pod's namespace and veth settings; `add_pod` also attaches it."""
        full = f"{self.name}-{name}"
        namespace = namespaces.make(full)
        interfaces = tuple(ip_interface(one) for one in addresses)
        gateways = tuple(one.network.network_address + 1 for one in interfaces)
        mac = "0e:" + secrets.token_bytes(5).hex(":")
        veth = Veth(
            name=port_name(self.instance, full),
            vni=vni,
            mac=mac,
            addresses=interfaces,
            gateways=gateways,
            **more,
        )
        return NamespacePod(self, full, namespace, veth)

    def add_pod(self, name: str, vni: int, *addresses: str, **more: Any) -> NamespacePod:
        pod = self.make_pod(name, vni, *addresses, **more)
        self.plane.add_port(pod.veth, pod.namespace)
        self.pods.append(pod)
        self.state = replace(self.state, veths=tuple(one.veth for one in self.pods))
        return pod

    def set_port(self, pod: NamespacePod, **changes: Any) -> None:
        """Changes settings of a pod's veth, effective with the next `apply`."""
        pod.veth = replace(pod.veth, **changes)
        self.state = replace(self.state, veths=tuple(one.veth for one in self.pods))

    def apply(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)
        self.plane.apply(self.state)

    def cut(self, *, off: bool = True) -> None:
        """Disconnects the node from the underlay, or reconnects it."""
        self._at_switch(lambda port: links.set_link(port, up=not off))

    def slow(self, bytes_per_second: int) -> None:
        """Limits the rate of underlay traffic to the node; 0 removes the limit."""
        if bytes_per_second:
            self._at_switch(lambda port: links.token_bucket(port, bytes_per_second, 65536))
        else:
            self._at_switch(links.remove_root_qdisc)

    def _at_switch(self, request: Callable[[int], NetlinkRequest]) -> None:
        with inside(self.lab.underlay):
            uplink = Netlink()
        port = links.read_link(uplink, f"n{self.number}")
        assert port
        uplink.do(request(port.index))
        uplink.close()

    def dropped(self, reason: DropReason) -> int:
        count = self.plane.drops().get(reason)
        return count.packets if count else 0

    def flows(self, vni: int) -> list[ObservedFlow]:
        """The connections of the network that this node has seen."""
        traffic = self.plane.open_traffic(vni)
        assert traffic is not None
        with closing(traffic):
            return traffic.flows()

    def dropped_flows(self, vni: int) -> list[ObservedDrop]:
        traffic = self.plane.open_traffic(vni)
        assert traffic is not None
        with closing(traffic):
            return traffic.drops()

    def took(self, path: PathTaken) -> int:
        return self.plane.paths()[path]

    def kill(self) -> None:
        """Removes the node, as by a power failure."""
        self.plane.close()
        self.plane.pins.remove()
        self._remove()

    def _remove(self) -> None:
        for name in (
            *namespaces.names(f"alcove-{self.instance}-"),
            *namespaces.names(f"{self.name}-"),
            self.name,
        ):
            namespaces.remove(name)
        for descriptor in {self.namespace, *(pod.namespace for pod in self.pods)}:
            os.close(descriptor)
        self.lab.nodes.remove(self)


def _settle(namespace: int, own: Interface | None, reachable: Prefix) -> None:
    """Gives the namespace's `eth0` an address and an on-link route."""
    with inside(namespace):
        netlink = Netlink()
        device = links.read_link(netlink, "eth0")
        assert device
        if own is not None:
            netlink.do(
                links.add_address(device.index, own.ip, own.network.prefixlen), links.set_link(device.index)
            )
        family = links.AF_INET if reachable.version == 4 else links.AF_INET6
        netlink.do(links.add_route(device.index, reachable, None, family))
        netlink.close()


class Lab:
    """`with Lab(3) as lab: lab.nodes[0].add_pod(…)`."""

    def __init__(self, nodes: int, *, started: bool = True, **settings: Any) -> None:
        self.count = nodes
        self.started = started
        self.changes = settings
        self.token = ""
        self.nodes: list[LabNode] = []
        self.hosts: dict[str, int] = {}

    def __enter__(self) -> "Lab":
        mount()
        self.token = claim_token("lab-{}-underlay")
        with ExitStack() as undo:
            undo.callback(self.close)
            self.underlay = namespaces.make(f"lab-{self.token}-underlay")
            with inside(self.underlay):
                netlink = Netlink()
                netlink.do(links.bridge("br"))
                netlink.close()
                plain_bridges()
            for number in range(self.count):
                self.nodes.append(LabNode(self, number))
            for node in self.nodes:
                others = tuple(one.address for one in self.nodes if one is not node)
                node.state = replace(node.state, nodes=others)
                node.settings = replace(node.settings, **self.changes)
                if self.started:
                    node.start()
                    node.apply()
            self._await_underlay()
            undo.pop_all()
        return self

    def _await_underlay(self) -> None:
        """Waits until all nodes are reachable on the underlay. Raises TimeoutError."""
        for node in self.nodes[1:]:
            for _ in range(1200):
                if ping(node.namespace, str(self.nodes[0].address), timeout=0.05):
                    break
            else:
                raise TimeoutError(f"node {node.number} does not reach the underlay")

    def add_host(self, name: str, *addresses: str) -> int:
        """Adds an external host on the underlay; returns its namespace."""
        full = f"lab-{self.token}-host-{name}"
        host = namespaces.make(full)
        self.hosts[full] = host
        link = f"h{len(self.hosts)}"
        with inside(self.underlay):
            uplink = Netlink()
            number = len(self.hosts)
            uplink.do(
                links.veth(
                    link, f"0e:00:00:00:02:{number:02x}", "eth0", f"0e:00:00:00:03:{number:02x}", host, MTU
                )
            )
            bridge, port = links.read_link(uplink, "br"), links.read_link(uplink, link)
            assert bridge and port
            uplink.do(links.set_link(port.index, master=bridge.index))
            uplink.close()
        for own in map(ip_interface, addresses):
            _settle(host, own, UNDERLAY if own.version == 4 else UNDERLAY6)
            for node in self.nodes:
                _settle(node.namespace, None, own.network)
        return host

    def route(self, namespace: int, prefix: str, via: IPv4Address) -> None:
        """Routes `prefix` from a host to a node."""
        with inside(namespace):
            netlink = Netlink()
            device = links.read_link(netlink, "eth0")
            assert device
            netlink.do(links.add_route(device.index, ip_network(prefix), via, links.AF_INET))
            netlink.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for node in list(self.nodes):
            if hasattr(node, "plane"):
                node.plane.close()
                node.plane.pins.remove()
            node._remove()
        for name, host in self.hosts.items():
            os.close(host)
            namespaces.remove(name)
        if hasattr(self, "underlay"):
            os.close(self.underlay)
        namespaces.remove(f"lab-{self.token}-underlay")
