"""Gateways: one network namespace per network with its gateway addresses, and one egress namespace ("exit")
for all.

    pod ── from_pod ──▶ gateway of its network ──▶ exit ── from_exit ──▶ underlay device ──▶ external
                        NAT to its uplink           NAT to the node's address and NAT ports

A gateway is reachable from its network's pods only; the agent opens sockets in it. Ring0's may have a link from the
node (`node_link`). All NAT is done in these
namespaces, none in the host's. From the exit to a gateway pass only replies and connections to a `NodePort`.
"""

import errno
import os
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from alcove.dataplane import links, namespaces, node_link
from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.apply import Checkpoint
from alcove.dataplane.desired import gateway_mac, gateway_name
from alcove.dataplane.errors import DataPlaneError, KernelRefused
from alcove.dataplane.links import AF_INET, AF_INET6
from alcove.dataplane.linkstate import Route, align, default_route, route_to
from alcove.dataplane.model import DataplaneSettings, DataplaneState, Gateway, by_network
from alcove.dataplane.namespaces import inside
from alcove.dataplane.netlink import Netlink
from alcove.dataplane.rule_loader import RuleLoader
from alcove.dataplane.rulesets import Uplink, exit_ruleset, gateway_ruleset
from alcove.dataplane.veths import HOST_MAC, IsSlotUsed, make_guarded

EXIT_MAC = "06:00:01:00:00:01"
UPLINK_MAC, UPLINK_PEER_MAC = "06:00:02:00:00:01", "06:00:02:00:00:02"
EXIT_HOP = IPv4Address("169.254.1.1")
"""The exit's next hop. It does not exist: the BPF program at the exit's link routes the packets."""
EXIT_HOP6 = IPv6Address("fe80::1")
UPLINKS, UPLINKS6 = IPv4Network("169.254.64.0/18"), IPv6Network("fd00:a1c0:f::/114")
"""Two addresses for each memory slot, between exit and gateway. They are link-local or reserved for the data
plane: no network has them, no pod may send to them, and they are never visible outside the node."""


class NextHop(Struct, frozen=True):
    index: int
    mac: str


def uplink_addresses(slot: int) -> tuple[Uplink, Uplink]:
    """The addresses of the exit's side and of the gateway's side."""
    first, first6 = UPLINKS.network_address + 2 * slot, UPLINKS6.network_address + 2 * slot
    return Uplink(first, first6), Uplink(first + 1, first6 + 1)


class MadeGateway(Struct, frozen=True):
    gateway: Gateway
    slot: int
    state: DataplaneState
    """The part of its network."""

    @property
    def wiring(self) -> tuple[object, ...]:
        """What links, addresses and routes follow from; rules depend on node ports as well."""
        return self.gateway, self.slot, inner_prefixes(self.gateway, self.state)


class Gateways:
    def __init__(
        self, settings: DataplaneSettings, netlink: Netlink, checkpoint: Checkpoint, is_slot_used: IsSlotUsed
    ) -> None:
        self.settings = settings
        self.is_slot_used = is_slot_used
        self.netlink = netlink
        self.checkpoint = checkpoint
        self.prefix = f"alcove-{settings.instance}-"
        self.kernel6 = Path("/proc/sys/net/ipv6").exists()
        """Whether the kernel supports IPv6."""
        self.rules = RuleLoader(checkpoint)
        self.failed: dict[int, str] = {}
        """Networks whose gateway is not as it should be, and why, by VNI: what is wrong with one costs no other."""
        self.wired: dict[int, MadeGateway] = {}
        """What gateways were made from, by VNI."""

    def namespace_name(self, vni: int) -> str:
        return f"{self.prefix}g{vni:x}"

    def open(self, vni: int) -> int:
        """A descriptor of the network's gateway namespace, for `namespaces.inside`; the caller closes it.
        Raises DataPlaneError if the network has no gateway on this node."""
        namespace = namespaces.open_named(self.namespace_name(vni))
        if namespace is None:
            raise DataPlaneError(f"network {vni} has no gateway on this node")
        return namespace

    def invalidate(self, maximum: int | None = None) -> None:
        """Drops the cached state of gateways, so that `ensure` checks them in the kernel again. With
        `maximum`, only of that many gateways, the longest not checked first."""
        for namespace in list(self.rules.loaded)[:maximum]:
            self.rules.forget(namespace)
        for vni in list(self.wired)[:maximum]:
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
                    _enable_forwarding()
                    _set_up_exit(self.kernel6)
                # Up last: after a kill before this it is down, and the next run repeats the setup. It has no
                # program yet, but no gateway can send packets to it yet either.
                self.netlink.do(links.clsact(link.index), links.set_link(link.index))
        finally:
            os.close(namespace)
        return NextHop(link.index, EXIT_MAC)

    def ensure(self, state: DataplaneState, slots: dict[int, int], mtu: int, program: int) -> None:
        """Creates the gateways, and the nftables rules in them and in the exit. `program` is attached to
        their links.

        Rules are loaded before the links are created, so that no packet passes without them. What fails for one
        gateway is in `failed`, and the next call tries it again. Raises DataPlaneError if the exit fails.
        """
        uplinks = {gateway.vni: uplink_addresses(slots[gateway.vni])[1] for gateway in state.gateways}
        parts = by_network(state)
        self.failed = self._ensure_exit_rules(state, uplinks)
        for gateway in state.gateways:
            self.checkpoint(f"make gateway {gateway.vni}")
            try:
                own = parts.get(gateway.vni, DataplaneState())
                uplink, slot = uplinks[gateway.vni], slots[gateway.vni]
                self._ensure_gateway(gateway, own, uplink, slot, mtu, program, state.forbidden)
            except (DataPlaneError, OSError) as error:
                self.failed[gateway.vni] = str(error)

    def _ensure_exit_rules(self, state: DataplaneState, uplinks: dict[int, Uplink]) -> dict[int, str]:
        """Without gateways as well: an earlier process may have left rules for gateways that are gone."""

        def build(without: Collection[int]) -> str:
            node_ports = tuple(each for each in state.node_ports if each.vni not in without)
            partial_state = replace(state, node_ports=node_ports) if without else state
            return exit_ruleset(self.settings, partial_state, uplinks, kernel6=self.kernel6)

        vnis = {each.vni for each in state.node_ports} & uplinks.keys()
        return dict(self.rules.load_shared(f"{self.prefix}exit", build, vnis))

    def _ensure_gateway(
        self,
        gateway: Gateway,
        state: DataplaneState,
        uplink: Uplink,
        slot: int,
        mtu: int,
        program: int,
        forbidden: Collection[Prefix],
    ) -> None:
        """`state` is the part of the gateway's network; the node gets no routes to `forbidden` prefixes."""
        name = self.namespace_name(gateway.vni)
        made, desired = self.wired.get(gateway.vni), MadeGateway(gateway, slot, state)
        if made == desired and name in self.rules.loaded:
            return
        namespace = namespaces.make(name)
        try:
            six = self.settings.node6 is not None
            self.rules.load(name, gateway_ruleset(gateway, state, uplink, six=six, kernel6=self.kernel6))
            if made is None or made.wiring != desired.wiring:
                self._ensure_inner(gateway, inner_prefixes(gateway, state), namespace, mtu, program)
                self._ensure_uplink(gateway.vni, namespace, slot)
                if gateway.is_routed:
                    self.checkpoint("make the link of the node")
                    node_link.ensure(
                        self.netlink,
                        self.settings.instance,
                        namespace,
                        inner_prefixes(gateway, state),
                        forbidden,
                        mtu,
                        kernel6=self.kernel6,
                    )
            self.wired[gateway.vni] = desired
        finally:
            os.close(namespace)

    def _ensure_inner(
        self, gateway: Gateway, prefixes: tuple[Prefix, ...], namespace: int, mtu: int, program: int
    ) -> None:
        """Creates the link to the network, with the same program as a pod's veth."""
        link_name = gateway_name(self.settings.instance, gateway.vni)
        if links.read_link(self.netlink, link_name) is None:
            inner = ("net", gateway_mac(gateway.vni))
            make_guarded(
                self.netlink, link_name, inner, namespace, mtu, program, self.checkpoint, self.is_slot_used
            )
        with inside(namespace):
            _enable_forwarding()
            _configure_inner(gateway, prefixes)

    def _ensure_uplink(self, vni: int, namespace: int, slot: int) -> None:
        exit_side, gateway_side = uplink_addresses(slot)
        exit_namespace = namespaces.make(f"{self.prefix}exit")
        try:
            with inside(namespace):
                _ensure_gateway_side(exit_namespace, f"g{vni:x}", gateway_side, exit_side, self.kernel6)
            with inside(exit_namespace):
                _set_up_exit_side(f"g{vni:x}", exit_side, gateway_side, self.kernel6)
        finally:
            os.close(exit_namespace)

    def remove_others(self, state: DataplaneState) -> None:
        if not any(gateway.is_routed for gateway in state.gateways):
            node_link.remove(self.netlink, self.settings.instance)
        desired_names = {self.namespace_name(gateway.vni) for gateway in state.gateways} | {
            f"{self.prefix}exit"
        }
        # Only names of gateways: pods' namespaces have the same prefix, and are removed elsewhere.
        for name in namespaces.names(f"{self.prefix}g"):
            if name not in desired_names:
                self.checkpoint(f"remove {name}")
                namespaces.remove(name)
                self.rules.forget(name)
                self.wired.pop(int(name.removeprefix(f"{self.prefix}g"), 16), None)


def _enable_forwarding() -> None:
    """Enables forwarding in the namespace and disables rp_filter: the BPF programs check source addresses,
    and replies may use another path."""
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
    """All prefixes of the network: those of its VPC and of its services."""
    vpc_prefixes = [prefix for vpc in state.vpcs if vpc.vni == gateway.vni for prefix in vpc.prefixes]
    service_prefixes = [
        one for network in state.networks if network.vni == gateway.vni for one in network.service_prefixes
    ]
    return (*vpc_prefixes, *service_prefixes)


def _configure_inner(gateway: Gateway, prefixes: tuple[Prefix, ...]) -> None:
    """Sets addresses and routes: all prefixes of the network are on-link, the BPF program answers ARP for all
    of them."""
    node_addresses: list[Address] = [
        one for one in (gateway.node_address, gateway.node_address6) if one is not None
    ]
    netlink = Netlink()
    try:
        netlink.do(links.set_link(_index(netlink, "lo")))
        addresses = (*gateway.addresses, *(ip_interface(one) for one in node_addresses))
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


def _ensure_gateway_side(
    exit_namespace: int, peer_name: str, local: Uplink, peer: Uplink, kernel6: bool
) -> None:
    netlink = Netlink()
    try:
        if links.read_link(netlink, "up") is None:
            # The kernel destroys a namespace some time after its name is removed: the peer of an earlier
            # link may still exist.
            _remove_link(exit_namespace, peer_name)
            netlink.do(links.veth("up", UPLINK_MAC, peer_name, UPLINK_PEER_MAC, exit_namespace, 1500))
        routes = [default_route(peer.four), *([default_route(peer.six)] if kernel6 else ())]
        _configure_side(
            netlink, _index(netlink, "up"), local, peer, routes, UPLINK_PEER_MAC if kernel6 else ""
        )
    finally:
        netlink.close()


def _set_up_exit_side(name: str, local: Uplink, peer: Uplink, kernel6: bool) -> None:
    netlink = Netlink()
    try:
        routes = [route_to(IPv4Network((peer.four, 32)))]
        _configure_side(netlink, _index(netlink, name), local, peer, routes, UPLINK_MAC if kernel6 else "")
    finally:
        netlink.close()


def _configure_side(
    netlink: Netlink, index: int, local: Uplink, peer: Uplink, routes: list[Route], peer_mac: str
) -> None:
    """Configures one side of an uplink. `peer_mac` is the peer's MAC for a static IPv6 neighbor entry,
    because the exit does not answer neighbor solicitations; empty if the kernel has no IPv6."""
    addresses = [ip_interface((local.four, 31)), *([ip_interface((local.six, 127))] if peer_mac else ())]
    align(netlink, index, addresses, routes)
    if peer_mac:
        netlink.do(links.add_neighbor(index, peer.six, peer_mac))
