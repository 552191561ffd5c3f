"""The nftables rules of gateways and egress, as text."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_interface, ip_network

import pytest
from msgspec.structs import replace

from alcove.dataplane.desired import PRIORITY
from alcove.dataplane.model import DataplaneSettings, DataplaneState, Gateway, NodePort, Protocol, by_network
from alcove.dataplane.rulesets import Uplink, exit_ruleset, gateway_ports, gateway_ruleset
from alcove.dataplane.shaping import SHARES, commands

NODE = IPv4Address("192.168.0.1")
SETTINGS = DataplaneSettings("al", NODE, "eth0")
GATEWAY = Gateway(5, (ip_interface("10.0.1.1/24"),), IPv4Address("10.0.1.240"))
VIP = IPv4Address("172.20.0.1")
DOORS = (
    NodePort(5, NODE, 30001, Protocol.UDP, VIP, 53),
    NodePort(5, NODE, 30000, Protocol.TCP, VIP, 80, keep_client=True),
    NodePort(6, NODE, 30002, Protocol.TCP, VIP, 80),
)
UPLINK = Uplink(IPv4Address("100.64.0.1"), IPv6Address("fd00:a1c0:f::1"))


def test_each_node_port_has_a_port_that_does_not_depend_on_order() -> None:
    state, reverse = DataplaneState(node_ports=DOORS), DataplaneState(node_ports=DOORS[::-1])
    assert gateway_ports(state, 5) == gateway_ports(reverse, 5)
    assert sorted(gateway_ports(state, 5).values()) == [1024, 1025]


def test_only_a_routed_network_forwards_what_its_node_sends() -> None:
    assert "iifname node" not in gateway_ruleset(GATEWAY, DataplaneState(), UPLINK)
    routed = gateway_ruleset(replace(GATEWAY, is_routed=True), DataplaneState(), UPLINK)
    assert "iifname node oifname net accept" in routed
    assert "iifname node ct state new drop" in routed, "the agent's servers in the gateway are for pods"


def test_a_closed_network_forwards_nothing_of_its_own() -> None:
    closed = gateway_ruleset(GATEWAY, DataplaneState(), UPLINK)
    assert "policy drop" in closed
    assert "iifname net oifname up accept" not in closed
    assert "iifname net oifname up accept" in gateway_ruleset(
        Gateway(5, GATEWAY.addresses, egress=True), DataplaneState(), UPLINK
    )


def test_destinations_that_are_denied_except_for_allowed_parts() -> None:
    denied = (ip_network("10.0.0.0/8"), ip_network("172.16.0.0/12"), ip_network("fc00::/7"))
    allowed = (ip_network("10.1.0.0/16"), ip_network("10.1.2.0/24"), ip_network("10.0.0.0/16"))
    gateway = Gateway(5, GATEWAY.addresses, egress=True, egress_denied=denied, egress_allowed=allowed)
    rules = gateway_ruleset(gateway, DataplaneState(), UPLINK, six=True)
    rule = "iifname net oifname up ct direction original"
    four, six = part(rules, "ip").splitlines(), part(rules, "ip6").splitlines()
    assert f"    {rule} ip daddr {{ 10.0.0.0/8, 172.16.0.0/12 }} ip daddr != {{ 10.0.0.0/15 }} drop" in four
    assert f"    {rule} ip6 daddr {{ fc00::/7 }} drop" in six


def test_what_the_agent_sends_is_held_to_what_pods_may_send() -> None:
    def output(gateway: Gateway) -> list[str]:
        rules = part(gateway_ruleset(gateway, DataplaneState(), UPLINK), "ip")
        return [line.strip() for line in rules.split("chain output {")[1].split("\n  }")[0].splitlines()]

    denied = (ip_network("10.0.0.0/8"),)
    closed = Gateway(5, GATEWAY.addresses, egress_denied=denied)
    rule = "oifname up ct direction original ip daddr { 10.0.0.0/8 } drop"
    assert rule in output(closed) and "oifname up drop" in output(closed)
    opened = replace(closed, egress=True)
    assert rule in output(opened) and "oifname up drop" not in output(opened)
    assert opened.may_leave(IPv4Address("8.8.8.8")) and not opened.may_leave(IPv4Address("10.1.1.1"))
    assert not closed.may_leave(IPv4Address("8.8.8.8"))


def test_node_ports_are_translated_and_keep_clients_if_configured() -> None:
    rules = gateway_ruleset(GATEWAY, DataplaneState(node_ports=DOORS), UPLINK)
    assert "tcp dport 1024 dnat to 172.20.0.1:80" in rules
    assert "udp dport 1025 meta mark set 1 dnat to 172.20.0.1:53" in rules
    assert "meta mark 1 snat to 10.0.1.240" in rules


def test_clients_outside_the_ranges_of_a_node_port_are_not_translated() -> None:
    ranges = (ip_network("10.1.0.0/16"), ip_network("10.1.2.0/24"), ip_network("192.0.2.7/32"))
    door = replace(DOORS[0], clients=ranges)
    rules = gateway_ruleset(GATEWAY, DataplaneState(node_ports=(door,)), UPLINK)
    assert (
        "udp dport 1024 ip saddr { 10.1.0.0/16, 192.0.2.7/32 } meta mark set 1 dnat to 172.20.0.1:53" in rules
    )
    nobody = replace(DOORS[0], clients=(ip_network("::/0"),))
    assert "dnat to" not in gateway_ruleset(GATEWAY, DataplaneState(node_ports=(nobody,)), UPLINK)


def test_the_exit_keeps_to_its_ports_and_off_the_nodes() -> None:
    rules = exit_ruleset(
        SETTINGS, DataplaneState(node_ports=DOORS, forbidden=(ip_network("192.168.0.0/24"),)), {5: UPLINK}
    )
    assert "meta l4proto tcp snat to 192.168.0.1:20000-29999" in rules
    assert "ip daddr { 192.168.0.0/24 } drop" in rules
    assert "tcp dport 30000 dnat to 100.64.0.1:1024" in rules
    assert "30002" not in rules, "a network without a gateway here has no door here"


NODE6, VIP6 = IPv6Address("2001:db8::1"), IPv6Address("fd20::1")
DOOR6 = NodePort(5, NODE6, 30003, Protocol.TCP, VIP6, 80)


def part(rules: str, family: str) -> str:
    """The rules of one family."""
    return rules.split(f"\ntable {family} alcove {{")[1].split("\n}")[0]


def test_by_ipv6_nothing_passes_unless_the_node_has_it() -> None:
    state = DataplaneState(node_ports=(*DOORS, DOOR6), forbidden=(ip_network("2001:db8::/64"),))
    without = part(exit_ruleset(SETTINGS, state, {5: UPLINK}), "ip6")
    assert "accept" not in without
    assert "nat to" not in without
    both = part(exit_ruleset(replace(SETTINGS, node6=NODE6), state, {5: UPLINK}), "ip6")
    assert "meta l4proto icmpv6 snat to [2001:db8::1]:20000-29999" in both
    assert "ip6 daddr { 2001:db8::/64 } drop" in both
    assert "ip6 daddr 2001:db8::1 tcp dport 30003 dnat to [fd00:a1c0:f::1]:1026" in both
    assert "30000" not in both


def test_a_gateway_forwards_ipv6_if_it_has_egress() -> None:
    gateway = Gateway(5, GATEWAY.addresses, egress=True, node_address6=IPv6Address("fd00::f0"))
    state = DataplaneState(node_ports=(DOOR6,))
    closed = part(gateway_ruleset(gateway, state, UPLINK), "ip6")
    assert "oifname up accept" not in closed
    assert "dnat to" not in closed
    open_ = part(gateway_ruleset(gateway, state, UPLINK, six=True), "ip6")
    assert "iifname net oifname up accept" in open_
    assert "ip6 daddr fd00:a1c0:f::1 tcp dport 1024 meta mark set 1 dnat to [fd20::1]:80" in open_
    assert "meta mark 1 snat to fd00::f0" in open_


def test_shares_add_up_and_classes_are_named_as_packets_name_them() -> None:
    assert abs(sum(SHARES.values()) - 1) < 1e-9
    messages = commands("eth0", 1000, exists=False)
    named = [line.split("classid ")[1].split()[0] for line in messages[1:]]
    assert named == ["a1c0:1", "a1c0:10", "a1c0:20", "a1c0:30"]
    assert [f"{one >> 16:x}:{one & 0xFFFF:x}" for one in PRIORITY.values()] == named[1:]
    assert commands("eth0", 1000, exists=True) == messages[1:], "what is there is changed, not made"


class CountedPorts(tuple[NodePort, ...]):
    """Counts how often node ports are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[NodePort]:
        for node_port in super().__iter__():
            CountedPorts.looks += 1
            yield node_port


@pytest.mark.parametrize("networks", [20, 200])
def test_a_node_port_is_looked_at_as_often_whatever_other_networks_have(networks: int) -> None:
    ports = CountedPorts(NodePort(vni, NODE, vni, Protocol.TCP, VIP, 80) for vni in range(1, networks + 1))
    state = DataplaneState(node_ports=ports)
    CountedPorts.looks = 0
    rules = exit_ruleset(SETTINGS, state, dict.fromkeys(range(1, networks + 1), UPLINK))
    parts = by_network(state)
    assert rules.count("dnat to") == len(parts) == networks
    assert all(len(gateway_ports(parts[vni], vni)) == 1 for vni in parts)
    assert CountedPorts.looks == 3 * networks, "once for each family's rules, and to part them"
