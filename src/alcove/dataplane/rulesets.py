"""The nftables rules of gateways and exit, as text (pure). Each is replaced in one transaction, both families at once
(`kernel6`: if the kernel has both)."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

from alcove.dataplane.address import Address
from alcove.dataplane.model import DataplaneSettings, DataplaneState, Gateway, NodePort, Protocol

FIRST_NODE_PORT = 1024
POD_CONNECTIONS_MAX = 4096
"""To the world, of one pod at a time."""
_PORTED = {Protocol.TCP: "tcp", Protocol.UDP: "udp", Protocol.SCTP: "sctp"}
_FAMILIES = {4: "ip", 6: "ip6"}
_ICMP = {4: "icmp", 6: "icmpv6"}
_ADDRESS_TYPES = {4: "ipv4_addr", 6: "ipv6_addr"}


class Uplink(Struct, frozen=True):
    """A gateway's own addresses on its link to the exit."""

    four: IPv4Address
    six: IPv6Address

    def of(self, version: int) -> Address:
        return self.four if version == 4 else self.six


def gateway_ports(state: DataplaneState, vni: int) -> dict[NodePort, int]:
    """Between exit and gateway each door of a network has a port of its own."""
    node_ports = sorted(
        (node_port for node_port in state.node_ports if node_port.vni == vni),
        key=lambda door: (door.address.version, door.address, door.protocol, door.port),
    )
    return {node_port: FIRST_NODE_PORT + index for index, node_port in enumerate(node_ports)}


def _doors(state: DataplaneState, vni: int, version: int) -> dict[NodePort, int]:
    return {
        node_port: port
        for node_port, port in gateway_ports(state, vni).items()
        if node_port.address.version == version
    }


def _at(address: Address, ports: object) -> str:
    return f"{address}:{ports}" if address.version == 4 else f"[{address}]:{ports}"


def _head(version: int) -> str:
    table = f"table {_FAMILIES[version]} alcove"
    return f"{table}\ndelete {table}\n{table} {{"


def exit_ruleset(
    settings: DataplaneSettings, state: DataplaneState, uplinks: Mapping[int, Uplink], *, kernel6: bool = True
) -> str:
    """Out: the node's address, by its share of ports. In: doors. Between gateways: nothing."""
    four = _exit_rules(4, settings, settings.node, state, uplinks)
    return four + _exit_rules(6, settings, settings.node6, state, uplinks) if kernel6 else four


def _exit_rules(
    version: int,
    settings: DataplaneSettings,
    node: Address | None,
    state: DataplaneState,
    uplinks: Mapping[int, Uplink],
) -> str:
    """Without an address of the family, nothing passes."""
    family, (low, high) = _FAMILIES[version], settings.nat_ports
    forbidden = ", ".join(sorted(str(prefix) for prefix in state.forbidden if prefix.version == version))
    lines = [_head(version), "  chain forward {", "    type filter hook forward priority 0; policy drop;"]
    if node is not None:
        lines += ["    ct state established,related accept"]
        if forbidden:
            lines += [f"    oifname out {family} daddr {{ {forbidden} }} drop"]
        lines += ["    oifname out accept", "    iifname out ct status dnat accept"]
    lines += ["  }", "  chain input {", "    type filter hook input priority 0; policy drop;", "  }"]
    lines += ["  chain prerouting {", "    type nat hook prerouting priority dstnat;"]
    for vni, uplink in uplinks.items() if node is not None else ():
        for node_port, port in _doors(state, vni, version).items():
            asked = f"{family} daddr {node_port.address} {_PORTED[node_port.protocol]} dport {node_port.port}"
            lines += [f"    iifname out {asked} dnat to {_at(uplink.of(version), port)}"]
    lines += ["  }", "  chain postrouting {", "    type nat hook postrouting priority srcnat;"]
    if node is not None:
        share = _at(node, f"{low}-{high}")
        lines += [
            f"    oifname out meta l4proto {kind} snat to {share}" for kind in ("tcp", "udp", _ICMP[version])
        ]
    return "\n".join([*lines, "  }", "}", ""])


def gateway_ruleset(
    gateway: Gateway, state: DataplaneState, uplink: Uplink, *, six: bool = False, kernel6: bool = True
) -> str:
    """Pods out if the network allows it; doors in; the agent's sockets for pods only. `six`: by IPv6, too."""
    four = _gateway_rules(4, gateway, gateway.node_address, state, uplink, is_open=True)
    if not kernel6:
        return four
    return four + _gateway_rules(6, gateway, gateway.node_address6, state, uplink, is_open=six)


def _gateway_rules(
    version: int,
    gateway: Gateway,
    own: Address | None,
    state: DataplaneState,
    uplink: Uplink,
    *,
    is_open: bool,
) -> str:
    family = _FAMILIES[version]
    lines = [
        _head(version),
        f"  set sources {{ type {_ADDRESS_TYPES[version]}; size 65535; flags dynamic; }}",
    ]
    lines += ["  chain forward {", "    type filter hook forward priority 0; policy drop;"]
    lines += ["    ct state established,related accept"]
    if gateway.egress and is_open:
        # The exit's table is everybody's: no pod may fill it.
        counted = f"{family} saddr ct count over {POD_CONNECTIONS_MAX}"
        lines += [f"    iifname net oifname up add @sources {{ {counted} }} drop"]
        lines += ["    iifname net oifname up accept"]
    lines += ["    iifname up oifname net ct status dnat accept", "  }"]
    lines += ["  chain input {", "    type filter hook input priority 0;"]
    lines += ["    iifname up ct state new drop", "  }"]
    lines += ["  chain prerouting {", "    type nat hook prerouting priority dstnat;"]
    for node_port, port in _doors(state, gateway.vni, version).items() if is_open else ():
        mark = "" if node_port.keep_client else " meta mark set 1"
        asked = f"{family} daddr {uplink.of(version)} {_PORTED[node_port.protocol]} dport {port}"
        lines += [
            f"    iifname up {asked}{mark} dnat to {_at(node_port.service_address, node_port.service_port)}"
        ]
    lines += ["  }", "  chain postrouting {", "    type nat hook postrouting priority srcnat;"]
    if own is not None:
        lines += [f"    oifname net meta mark 1 snat to {own}"]
    lines += ["    oifname up masquerade"]
    return "\n".join([*lines, "  }", "}", ""])
