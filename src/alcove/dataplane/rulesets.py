"""The nftables rules of gateways and exit, as text (pure). Each is replaced in one transaction."""

from collections.abc import Mapping
from ipaddress import IPv4Address

from alcove.dataplane.model import Door, Gateway, Protocol, Settings, World

FIRST_DOOR_PORT = 1024
POD_CONNECTIONS_MAX = 4096
"""To the world, of one pod at a time."""
_PORTED = {Protocol.TCP: "tcp", Protocol.UDP: "udp", Protocol.SCTP: "sctp"}
_HEAD = "table ip alcove\ndelete table ip alcove\ntable ip alcove {"


def door_ports(world: World, vni: int) -> dict[Door, int]:
    """Between exit and gateway each door of a network has a port of its own."""
    doors = sorted(
        (door for door in world.doors if door.vni == vni),
        key=lambda door: (door.address, door.protocol, door.port),
    )
    return {door: FIRST_DOOR_PORT + index for index, door in enumerate(doors)}


def exit_ruleset(settings: Settings, world: World, uplinks: Mapping[int, IPv4Address]) -> str:
    """Out: the node's address, by its share of ports. In: doors. Between gateways: nothing."""
    low, high = settings.nat_ports
    forbidden = ", ".join(sorted(str(prefix) for prefix in world.forbidden if prefix.version == 4))
    lines = [_HEAD, "  chain forward {", "    type filter hook forward priority 0; policy drop;"]
    lines += ["    ct state established,related accept"]
    if forbidden:
        lines += [f"    oifname out ip daddr {{ {forbidden} }} drop"]
    lines += ["    oifname out accept", "    iifname out ct status dnat accept", "  }"]
    lines += ["  chain input {", "    type filter hook input priority 0; policy drop;", "  }"]
    lines += ["  chain prerouting {", "    type nat hook prerouting priority dstnat;"]
    for vni, uplink in uplinks.items():
        for door, port in door_ports(world, vni).items():
            kind = _PORTED[door.protocol]
            lines += [
                f"    iifname out ip daddr {door.address} {kind} dport {door.port} dnat to {uplink}:{port}"
            ]
    lines += ["  }", "  chain postrouting {", "    type nat hook postrouting priority srcnat;"]
    for kind in ("tcp", "udp", "icmp"):
        lines += [f"    oifname out meta l4proto {kind} snat to {settings.node}:{low}-{high}"]
    return "\n".join([*lines, "  }", "}", ""])


def gateway_ruleset(gateway: Gateway, world: World, uplink: IPv4Address) -> str:
    """Pods out if the network allows it; doors in; the agent's sockets for pods only."""
    doors = door_ports(world, gateway.vni)
    lines = [_HEAD, "  set sources { type ipv4_addr; size 65535; flags dynamic; }"]
    lines += ["  chain forward {", "    type filter hook forward priority 0; policy drop;"]
    lines += ["    ct state established,related accept"]
    if gateway.egress:
        # The exit's table is everybody's: no pod may fill it.
        lines += [
            f"    iifname net oifname up add @sources {{ ip saddr ct count over {POD_CONNECTIONS_MAX} }} drop"
        ]
        lines += ["    iifname net oifname up accept"]
    lines += ["    iifname up oifname net ct status dnat accept", "  }"]
    lines += ["  chain input {", "    type filter hook input priority 0;"]
    lines += ["    iifname up ct state new drop", "  }"]
    lines += ["  chain prerouting {", "    type nat hook prerouting priority dstnat;"]
    for door, port in doors.items():
        kind = _PORTED[door.protocol]
        mark = "" if door.keep_client else " meta mark set 1"
        target = f"{door.service_address}:{door.service_port}"
        lines += [f"    iifname up ip daddr {uplink} {kind} dport {port}{mark} dnat to {target}"]
    lines += ["  }", "  chain postrouting {", "    type nat hook postrouting priority srcnat;"]
    if gateway.node_address is not None:
        lines += [f"    oifname net meta mark 1 snat to {gateway.node_address}"]
    lines += ["    oifname up masquerade"]
    return "\n".join([*lines, "  }", "}", ""])
