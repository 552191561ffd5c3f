"""The rules of gateways and exit, as text."""

from ipaddress import IPv4Address, ip_interface, ip_network

from alcove.dataplane.desired import PRIORITY
from alcove.dataplane.model import Door, Gateway, Protocol, Settings, World
from alcove.dataplane.rulesets import door_ports, exit_ruleset, gateway_ruleset
from alcove.dataplane.shaping import SHARES, commands

NODE = IPv4Address("192.168.0.1")
SETTINGS = Settings("al", NODE, "eth0")
GATEWAY = Gateway(5, (ip_interface("10.0.1.1/24"),), IPv4Address("10.0.1.240"))
VIP = IPv4Address("172.20.0.1")
DOORS = (
    Door(5, NODE, 30001, Protocol.UDP, VIP, 53),
    Door(5, NODE, 30000, Protocol.TCP, VIP, 80, keep_client=True),
    Door(6, NODE, 30002, Protocol.TCP, VIP, 80),
)
UPLINK = IPv4Address("100.64.0.1")


def test_each_door_of_a_network_has_a_port_that_does_not_depend_on_order() -> None:
    world, reverse = World(doors=DOORS), World(doors=DOORS[::-1])
    assert door_ports(world, 5) == door_ports(reverse, 5)
    assert sorted(door_ports(world, 5).values()) == [1024, 1025]


def test_a_closed_network_forwards_nothing_of_its_own() -> None:
    closed = gateway_ruleset(GATEWAY, World(), UPLINK)
    assert "policy drop" in closed
    assert "iifname net oifname up accept" not in closed
    assert "iifname net oifname up accept" in gateway_ruleset(
        Gateway(5, GATEWAY.addresses, egress=True), World(), UPLINK
    )


def test_doors_are_translated_and_clients_kept_where_asked() -> None:
    rules = gateway_ruleset(GATEWAY, World(doors=DOORS), UPLINK)
    assert "tcp dport 1024 dnat to 172.20.0.1:80" in rules
    assert "udp dport 1025 meta mark set 1 dnat to 172.20.0.1:53" in rules
    assert "meta mark 1 snat to 10.0.1.240" in rules


def test_the_exit_keeps_to_its_ports_and_off_the_nodes() -> None:
    rules = exit_ruleset(SETTINGS, World(doors=DOORS, forbidden=(ip_network("192.168.0.0/24"),)), {5: UPLINK})
    assert "meta l4proto tcp snat to 192.168.0.1:20000-29999" in rules
    assert "ip daddr { 192.168.0.0/24 } drop" in rules
    assert "tcp dport 30000 dnat to 100.64.0.1:1024" in rules
    assert "30002" not in rules, "a network without a gateway here has no door here"


def test_shares_add_up_and_classes_are_named_as_packets_name_them() -> None:
    assert abs(sum(SHARES.values()) - 1) < 1e-9
    told = commands("eth0", 1000, there=False)
    named = [line.split("classid ")[1].split()[0] for line in told[1:]]
    assert named == ["a1c0:1", "a1c0:10", "a1c0:20", "a1c0:30"]
    assert [f"{one >> 16:x}:{one & 0xFFFF:x}" for one in PRIORITY.values()] == named[1:]
    assert commands("eth0", 1000, there=True) == told[1:], "what is there is changed, not made"
