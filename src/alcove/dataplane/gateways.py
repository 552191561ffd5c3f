"""Gateways: per network a namespace that holds its gateway addresses, and one exit to the world for all.

    pod ── from_pod ──▶ gateway of its network ──▶ exit ── from_exit ──▶ underlay device ──▶ world
                        NAT to its uplink           NAT to the node's address, ports of its own

A gateway is reachable by its network's pods only; the agent opens its sockets there. All NAT is in these
namespaces, none in the host's. From exit to gateway come only answers and what a `Door` lets in.
"""

import errno
import os
import subprocess
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface
from pathlib import Path

from msgspec import Struct

from alcove.dataplane import links, namespaces
from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.apply import Checkpoint
from alcove.dataplane.desired import gateway_mac, gateway_name
from alcove.dataplane.errors import DataPlaneError, KernelRefused
from alcove.dataplane.links import AF_INET, AF_INET6
from alcove.dataplane.linkstate import Route, align, default_route, route_to
from alcove.dataplane.model import DataplaneSettings, DataplaneState, Gateway
from alcove.dataplane.namespaces import inside, path_of
from alcove.dataplane.netlink import Netlink
from alcove.dataplane.rulesets import Uplink, exit_ruleset, gateway_ruleset
from alcove.dataplane.veths import HOST_MAC, Taken, make_guarded

EXIT_MAC = "06:00:01:00:00:01"
UPLINK_MAC, UPLINK_PEER_MAC = "06:00:02:00:00:01", "06:00:02:00:00:02"
EXIT_HOP = IPv4Address("169.254.1.1")
"""Who the exit believes is next: nobody; the program there finds the way."""
EXIT_HOP6 = IPv6Address("fe80::1")
UPLINKS, UPLINKS6 = IPv4Network("169.254.64.0/18"), IPv6Network("fd00:a1c0:f::/114")
"""Two addresses for each memory slot, between exit and gateway. Link-local, or of our own: no network has them, no
pod may send to them, and they are never seen outside."""


class NextHop(Struct, frozen=True):
    index: int
    mac: str


def uplink_addresses(slot: int) -> tuple[Uplink, Uplink]:
    """The exit's side and the gateway's."""
    first, first6 = UPLINKS.network_address + 2 * slot, UPLINKS6.network_address + 2 * slot
    return Uplink(first, first6), Uplink(first + 1, first6 + 1)


class Gateways:
    def __init__(
        self, settings: DataplaneSettings, netlink: Netlink, checkpoint: Checkpoint, taken: Taken
    ) -> None:
        self.settings = settings
        self.taken = taken
        self.netlink = netlink
        self.checkpoint = checkpoint
        self.prefix = f"alcove-{settings.instance}-"
        self.kernel6 = Path("/proc/sys/net/ipv6").exists()
        """Whether the kernel knows IPv6 at all."""
        self.rulesets: dict[str, str] = {}
        self.wired: dict[int, tuple[Gateway, tuple[Prefix, ...], int]] = {}

    def namespace_name(self, vni: int) -> str:
        return f"{self.prefix}g{vni:x}"

    def open(self, vni: int) -> int:
        """A descriptor of the network's gateway namespace, for `namespaces.inside`; the caller closes it."""
        found = namespaces.open_named(self.namespace_name(vni))
        if found is None:
            raise DataPlaneError(f"network {vni} has no gateway here")
        return found

    def invalidate(self, most: int | None = None) -> None:
        """Forgets what there is, so that it is made anew where it is missing. `most`: only of so many gateways, those
        that were not doubted for longest."""
        for namespace in list(self.rulesets)[:most]:
            del self.rulesets[namespace]
        for vni in list(self.wired)[:most]:
            del self.wired[vni]

    def ensure_exit(self) -> NextHop:
        name, link_name = f"{self.prefix}exit", f"{self.settings.instance}x"
        self.checkpoint("make the exit")
        namespace = namespaces.make(name)
        try:
            link = links.read_link(self.netlink, link_name)
            if link is None:
                self.netlink.do(links.veth(link_name, HOST_MAC, "out", EXIT_MAC, namespace, 1500))
                link = links.read_link(self.netlink, link_name)
            if link is None:
                raise KernelRefused(f"find {link_name}", errno.ENODEV)
            if not link.up:
                with inside(namespace):
                    _forward()
                    _set_up_exit(self.kernel6)
                # Up last: a kill before leaves it down, and the next run begins anew. Until a program is
                # there, the host would only see packets that no gateway can send yet.
                self.netlink.do(links.clsact(link.index), links.set_link(link.index))
        finally:
            os.close(namespace)
        return NextHop(link.index, EXIT_MAC)

    def ensure(self, state: DataplaneState, slots: dict[int, int], mtu: int, program: int) -> None:
        """The gateways of the world, and the rules in them and in the exit. `program` guards their links.

        Rules come before the links they rule: nothing ever passes without them.
        """
        uplinks = {gateway.vni: uplink_addresses(slots[gateway.vni])[1] for gateway in state.gateways}
        if uplinks or f"{self.prefix}exit" in self.rulesets:
            rules = exit_ruleset(self.settings, state, uplinks, kernel6=self.kernel6)
            self._rule(f"{self.prefix}exit", rules)
        for gateway in state.gateways:
            self.checkpoint(f"make gateway {gateway.vni}")
            namespace = namespaces.make(self.namespace_name(gateway.vni))
            try:
                six = self.settings.node6 is not None
                rules = gateway_ruleset(gateway, state, uplinks[gateway.vni], six=six, kernel6=self.kernel6)
                self._rule(self.namespace_name(gateway.vni), rules)
                desired = (gateway, inner_prefixes(gateway, state), slots[gateway.vni])
                if self.wired.get(gateway.vni) != desired:
                    self._ensure_inner(gateway, desired[1], namespace, mtu, program)
                    self._ensure_uplink(gateway.vni, namespace, slots[gateway.vni])
                    self.wired[gateway.vni] = desired
            finally:
                os.close(namespace)

    def _ensure_inner(
        self, gateway: Gateway, prefixes: tuple[Prefix, ...], namespace: int, mtu: int, program: int
    ) -> None:
        """The link to the network, guarded as every port's."""
        link_name = gateway_name(self.settings.instance, gateway.vni)
        if links.read_link(self.netlink, link_name) is None:
            inner = ("net", gateway_mac(gateway.vni))
            make_guarded(self.netlink, link_name, inner, namespace, mtu, program, self.checkpoint, self.taken)
        with inside(namespace):
            _forward()
            _align_inner(gateway, prefixes)

    def _ensure_uplink(self, vni: int, namespace: int, slot: int) -> None:
        exit_side, own_side = uplink_addresses(slot)
        far = namespaces.make(f"{self.prefix}exit")
        try:
            with inside(namespace):
                _ensure_uplink_here(far, f"g{vni:x}", own_side, exit_side, self.kernel6)
            with inside(far):
                _set_up_uplink(f"g{vni:x}", exit_side, own_side, self.kernel6)
        finally:
            os.close(far)

    def _rule(self, namespace: str, rules: str) -> None:
        if self.rulesets.get(namespace) == rules:
            return
        self.checkpoint(f"rules of {namespace}")
        command = ["nsenter", f"--net={path_of(namespace)}", "nft", "-f", "-"]
        done = subprocess.run(command, input=rules, text=True, capture_output=True, check=False)
        if done.returncode:
            raise DataPlaneError(f"nftables refused the rules of {namespace}: {done.stderr.strip()}")
        self.rulesets[namespace] = rules

    def remove_others(self, state: DataplaneState) -> None:
        keep = {self.namespace_name(gateway.vni) for gateway in state.gateways} | {f"{self.prefix}exit"}
        # Beside gateways, pods' namespaces begin so too: those are not ours to remove.
        for name in namespaces.names(f"{self.prefix}g"):
            if name not in keep:
                self.checkpoint(f"remove {name}")
                namespaces.remove(name)
                self.rulesets.pop(name, None)
                self.wired.pop(int(name.removeprefix(f"{self.prefix}g"), 16), None)


def _forward() -> None:
    """Lets the namespace forward. Sources are checked by our programs; replies may come back another way."""
    for name in ("ip_forward", "conf/all/rp_filter", "conf/default/rp_filter"):
        value = "1" if name == "ip_forward" else "0"
        Path(f"/proc/sys/net/ipv4/{name}").write_text(value)
    forwarding = Path("/proc/sys/net/ipv6/conf/all/forwarding")
    # A kernel may be without IPv6.
    if forwarding.exists():
        forwarding.write_text("1")


def _index(netlink: Netlink, name: str) -> int:
    link = links.read_link(netlink, name)
    if link is None:
        raise KernelRefused(f"find {name}", errno.ENODEV)
    return link.index


def _set_up_exit(kernel6: bool) -> None:
    netlink = Netlink()
    try:
        index = _index(netlink, "out")
        netlink.do(
            links.set_link(_index(netlink, "lo")),
            links.set_link(index),
            links.add_route(index, IPv4Network((EXIT_HOP, 32)), None, AF_INET),
            links.add_neighbor(index, EXIT_HOP, HOST_MAC),
            links.add_route(index, None, EXIT_HOP, AF_INET),
        )
        if kernel6:
            netlink.do(
                links.add_neighbor(index, EXIT_HOP6, HOST_MAC),
                links.add_route(index, None, EXIT_HOP6, AF_INET6),
            )
    finally:
        netlink.close()


def inner_prefixes(gateway: Gateway, state: DataplaneState) -> tuple[Prefix, ...]:
    """All that is the network's: its own addresses and its services'."""
    own = [prefix for vpc in state.vpcs if vpc.vni == gateway.vni for prefix in vpc.prefixes]
    served = [
        one for network in state.networks if network.vni == gateway.vni for one in network.service_prefixes
    ]
    return (*own, *served)


def _align_inner(gateway: Gateway, prefixes: tuple[Prefix, ...]) -> None:
    """Everything of the network is on the link: the program there answers for all of it."""
    own: list[Address] = [one for one in (gateway.node_address, gateway.node_address6) if one is not None]
    netlink = Netlink()
    try:
        netlink.do(links.set_link(_index(netlink, "lo")))
        addresses = (*gateway.addresses, *(ip_interface(one) for one in own))
        align(netlink, _index(netlink, "net"), addresses, [route_to(one) for one in prefixes])
    finally:
        netlink.close()


def _remove_link(namespace: int, name: str) -> None:
    with inside(namespace):
        netlink = Netlink()
    try:
        link = links.read_link(netlink, name)
        if link is not None:
            netlink.do(links.delete_link(link.index))
    finally:
        netlink.close()


def _ensure_uplink_here(far: int, far_name: str, own: Uplink, hop: Uplink, kernel6: bool) -> None:
    netlink = Netlink()
    try:
        if links.read_link(netlink, "up") is None:
            # A namespace ends some time after its name: the other side of an earlier one may still be there.
            _remove_link(far, far_name)
            netlink.do(links.veth("up", UPLINK_MAC, far_name, UPLINK_PEER_MAC, far, 1500))
        routes = [default_route(hop.four), *([default_route(hop.six)] if kernel6 else ())]
        _align_side(netlink, _index(netlink, "up"), own, hop, routes, UPLINK_PEER_MAC if kernel6 else "")
    finally:
        netlink.close()


def _set_up_uplink(name: str, own: Uplink, hop: Uplink, kernel6: bool) -> None:
    netlink = Netlink()
    try:
        routes = [route_to(IPv4Network((hop.four, 32)))]
        _align_side(netlink, _index(netlink, name), own, hop, routes, UPLINK_MAC if kernel6 else "")
    finally:
        netlink.close()


def _align_side(
    netlink: Netlink, index: int, own: Uplink, hop: Uplink, routes: list[Route], hop_mac: str
) -> None:
    """One side of an uplink. `hop_mac` is empty where the kernel has no IPv6; else the other side is known by it:
    nobody has to be asked, and the exit answers no one."""
    addresses = [ip_interface((own.four, 31)), *([ip_interface((own.six, 127))] if hop_mac else ())]
    align(netlink, index, addresses, routes)
    if hop_mac:
        netlink.do(links.add_neighbor(index, hop.six, hop_mac))
