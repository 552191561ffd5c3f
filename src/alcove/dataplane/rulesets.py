"""The nftables rules of gateways and exit, as text. Pure: no I/O. Each ruleset is replaced in one
transaction, with both families if the kernel supports IPv6 (`kernel6`)."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, collapse_addresses

from msgspec import Struct

from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.model import DataplaneSettings, DataplaneState, Gateway, NodePort, Protocol, by_network
from alcove.dataplane.node_link import INSIDE

FIRST_NODE_PORT = 1024
POD_CONNECTIONS_MAX = 4096
"""Concurrent external connections of one pod."""
ACCOUNT_CONNECTIONS_MAX = 16_384
"""Concurrent connections of all gateways of one account through the exit, in both directions, whose conntrack table all
networks share. Further ones are dropped: clients see time-outs."""
DESTINATION_SHARE = 8
"""One account has at most this part (an eighth) of the NAT ports to one destination: address, protocol and port.
Further connections there are dropped."""
_PROTOCOLS = {Protocol.TCP: "tcp", Protocol.UDP: "udp", Protocol.SCTP: "sctp"}
_FAMILIES = {4: "ip", 6: "ip6"}
_ICMP = {4: "icmp", 6: "icmpv6"}
_ADDRESS_TYPES = {4: "ipv4_addr", 6: "ipv6_addr"}


class Uplink(Struct, frozen=True):
    """The addresses of one side of the link between a gateway and the exit."""

    four: IPv4Address
    six: IPv6Address

    def for_version(self, version: int) -> Address:
        return self.four if version == 4 else self.six


def gateway_ports(state: DataplaneState, vni: int) -> dict[NodePort, int]:
    """The port of each node port of a network between exit and gateway."""
    node_ports = sorted(
        (node_port for node_port in state.node_ports if node_port.vni == vni),
        key=lambda node_port: (
            node_port.address.version,
            node_port.address,
            node_port.protocol,
            node_port.port,
        ),
    )
    return {node_port: FIRST_NODE_PORT + index for index, node_port in enumerate(node_ports)}


def _node_ports(state: DataplaneState, vni: int, version: int) -> dict[NodePort, int]:
    return {
        node_port: port
        for node_port, port in gateway_ports(state, vni).items()
        if node_port.address.version == version
    }


def _endpoint(address: Address, ports: object) -> str:
    return f"{address}:{ports}" if address.version == 4 else f"[{address}]:{ports}"


def _head(version: int) -> str:
    table = f"table {_FAMILIES[version]} alcove"
    return f"{table}\ndelete {table}\n{table} {{"


def exit_ruleset(
    settings: DataplaneSettings, state: DataplaneState, uplinks: Mapping[int, Uplink], *, kernel6: bool = True
) -> str:
    """Egress: SNAT to the node's address and NAT ports. Ingress: node ports only. Nothing passes between
    gateways."""
    accounts = {gateway.vni: gateway.account for gateway in state.gateways}
    rules = ""
    for version, node in ((4, settings.node), (6, settings.node6)) if kernel6 else ((4, settings.node),):
        rules += _exit_rules(version, settings, node, state, uplinks)
        rules += _share_rules(version, settings.nat_ports, accounts)
    return rules


def _share_rules(version: int, ports: tuple[int, int], accounts: Mapping[int, int]) -> str:
    """Limits connections by account. This table is not deleted when the rules change, since its sets count the
    connections that exist; only its chain and its map of links are replaced."""
    family, address = _FAMILIES[version], _ADDRESS_TYPES[version]
    table, most = f"{family} alcove_shares", (ports[1] - ports[0] + 1) // DESTINATION_SHARE
    links = ", ".join(f'"g{vni:x}" : {account}' for vni, account in sorted(accounts.items()))
    lines = [
        f"table {table} {{",
        "  set accounts { type mark; size 65535; flags dynamic; }",
        f"  set destinations {{ type mark . {address} . inet_proto . inet_service; size 262144; flags dynamic; }}",
        f"  set pinged {{ type mark . {address}; size 262144; flags dynamic; }}",
        "  map links { type ifname : mark; }",
        "  chain forward { type filter hook forward priority 10; policy accept; }",
        "}",
        f"flush map {table} links",
        f"flush chain {table} forward",
        *([f"add element {table} links {{ {links} }}"] if links else ()),
        f"add rule {table} forward ct state established,related accept",
        f"add rule {table} forward oifname out meta mark set iifname map @links",
        f"add rule {table} forward iifname out meta mark set oifname map @links",
        f"add rule {table} forward add @accounts {{ meta mark ct count over {ACCOUNT_CONNECTIONS_MAX} }} drop",
        f"add rule {table} forward oifname out meta l4proto {{ tcp, udp }} add @destinations "
        f"{{ meta mark . {family} daddr . meta l4proto . th dport ct count over {most} }} drop",
        f"add rule {table} forward oifname out meta l4proto {_ICMP[version]} add @pinged "
        f"{{ meta mark . {family} daddr ct count over {most} }} drop",
    ]
    return "\n".join([*lines, ""])


def _exit_rules(
    version: int,
    settings: DataplaneSettings,
    node: Address | None,
    state: DataplaneState,
    uplinks: Mapping[int, Uplink],
) -> str:
    """Without a node address of the family, everything is dropped."""
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
    parts = by_network(state)
    for vni, uplink in uplinks.items() if node is not None else ():
        for node_port, port in _node_ports(parts.get(vni, DataplaneState()), vni, version).items():
            match = (
                f"{family} daddr {node_port.address} {_PROTOCOLS[node_port.protocol]} dport {node_port.port}"
            )
            lines += [f"    iifname out {match} dnat to {_endpoint(uplink.for_version(version), port)}"]
    lines += ["  }", "  chain postrouting {", "    type nat hook postrouting priority srcnat;"]
    if node is not None:
        source = _endpoint(node, f"{low}-{high}")
        lines += [
            f"    oifname out meta l4proto {kind} snat to {source}" for kind in ("tcp", "udp", _ICMP[version])
        ]
    return "\n".join([*lines, "  }", "}", ""])


def gateway_ruleset(
    gateway: Gateway, state: DataplaneState, uplink: Uplink, *, six: bool = False, kernel6: bool = True
) -> str:
    """Egress of pods, and of the agent's sockets, if the network allows it; ingress for node ports; the agent's
    servers are for pods only.
    `six`: also for IPv6."""
    four = _gateway_rules(4, gateway, gateway.node_address, state, uplink, is_open=True)
    if not kernel6:
        return four
    return four + _gateway_rules(6, gateway, gateway.node_address6, state, uplink, is_open=six)


def _denied(version: int, gateway: Gateway, route: str) -> list[str]:
    """A rule that drops what is sent to prefixes that pods may not reach. Replies to clients of node ports
    pass: their connections were opened from outside."""
    denied = [prefix for prefix in gateway.egress_denied if prefix.version == version]
    allowed = [prefix for prefix in gateway.egress_allowed if prefix.version == version]
    if not denied:
        return []
    match = f"{route} ct direction original {_FAMILIES[version]} daddr {_set(denied)}"
    excepted = f" {_FAMILIES[version]} daddr != {_set(allowed)}" if allowed else ""
    return [f"    {match}{excepted} drop"]


def _output_chain(version: int, gateway: Gateway, *, is_open: bool) -> list[str]:
    """The agent connects from the gateway on the tenant's behalf: to what pods may reach, and nothing else."""
    lines = ["  chain output {", "    type filter hook output priority 0;"]
    lines += _denied(version, gateway, "oifname up")
    lines += ["    oifname up ct state established,related accept"]
    return [*lines, *([] if is_open else ["    oifname up drop"]), "  }"]


def _set(prefixes: Sequence[Prefix]) -> str:
    """Merged, because elements of a set must not overlap."""
    merged = collapse_addresses(prefixes)  # type: ignore[type-var]
    return f"{{ {', '.join(str(prefix) for prefix in merged)} }}"


def _translated(node_port: NodePort, port: int, local: Address) -> list[str]:
    """A rule that leads from `port` of the uplink to the service. Other packets are dropped in the input chain:
    so are those of clients that may not connect."""
    family = _FAMILIES[local.version]
    match = f"iifname up {family} daddr {local} {_PROTOCOLS[node_port.protocol]} dport {port}"
    if node_port.clients is not None:
        clients = [prefix for prefix in node_port.clients if prefix.version == local.version]
        if not clients:
            return []
        match += f" {family} saddr {_set(clients)}"
    mark = "" if node_port.keep_client else " meta mark set 1"
    return [f"    {match}{mark} dnat to {_endpoint(node_port.service_address, node_port.service_port)}"]


def _gateway_rules(
    version: int,
    gateway: Gateway,
    node_address: Address | None,
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
    # Before the rule for established connections, so that it ends those too.
    lines += _denied(version, gateway, "iifname net oifname up")
    lines += ["    ct state established,related accept"]
    if gateway.egress and is_open:
        # All networks share the exit's conntrack table, so connections are limited per pod.
        limit = f"{family} saddr ct count over {POD_CONNECTIONS_MAX}"
        lines += [f"    iifname net oifname up add @sources {{ {limit} }} drop"]
        lines += ["    iifname net oifname up accept"]
    if gateway.is_routed:
        lines += [f"    iifname {INSIDE} oifname net accept"]
    lines += ["    iifname up oifname net ct status dnat accept", "  }"]
    lines += ["  chain input {", "    type filter hook input priority 0;"]
    if gateway.is_routed:
        lines += [f"    iifname {INSIDE} ct state new drop"]
    lines += ["    iifname up ct state new drop", "  }"]
    lines += _output_chain(version, gateway, is_open=gateway.egress and is_open)
    lines += ["  chain prerouting {", "    type nat hook prerouting priority dstnat;"]
    if gateway.is_routed:
        lines += [f"    iifname {INSIDE} meta mark set 1"]
    for node_port, port in _node_ports(state, gateway.vni, version).items() if is_open else ():
        lines += _translated(node_port, port, uplink.for_version(version))
    lines += ["  }", "  chain postrouting {", "    type nat hook postrouting priority srcnat;"]
    if node_address is not None:
        lines += [f"    oifname net meta mark 1 snat to {node_address}"]
    lines += ["    oifname up masquerade"]
    return "\n".join([*lines, "  }", "}", ""])
