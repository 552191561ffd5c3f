"""Connections to hosts outside: networks of one account share a bound, and others do not notice it."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import IPv4Address, ip_interface

import pytest

from alcove.dataplane import rulesets
from alcove.dataplane.model import Gateway, NodePort, Protocol
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.probes import IMPATIENT, TIMEOUT, connect, tcp_server

GREEDY, ALSO_GREEDY, QUIET = 8101, 8102, 8103
OUTSIDE, OTHER = "203.0.113.5", "203.0.113.6"
PORTS = (20000, 20039)
SHARE = 40 // rulesets.DESTINATION_SHARE
HELD_MAX = 12


class Exits:
    """Three networks with egress on one node, two of them of one account."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.outside = lab.add_host("outside", f"{OUTSIDE}/24", f"{OTHER}/24")
        accounts = {GREEDY: 7, ALSO_GREEDY: 7, QUIET: 9}
        self.networks = {vni: self.make(vni, account) for vni, account in accounts.items()}
        apply_networks(lab, *self.networks.values())

    def make(self, vni: int, account: int) -> LabNetwork:
        pod = self.lab.nodes[0].add_pod(f"p{vni}", vni, "10.0.1.11/24")
        gateway = Gateway(
            vni, (ip_interface("10.0.1.1/24"),), IPv4Address("10.0.1.240"), egress=True, account=account
        )
        return LabNetwork(vni, pods=[pod], gateways={0: gateway})

    def pod(self, vni: int) -> NamespacePod:
        return self.networks[vni].pods[0]

    def opened(
        self, stack: ExitStack, vni: int, address: str, port: int, most: int, expected: int | None = None
    ) -> int:
        """Opens connections until one fails; returns how many there are. Only those that are expected to be there, by
        default all, are waited for."""
        for count in range(most):
            is_expected = expected is None or count < expected
            patience = TIMEOUT if is_expected else IMPATIENT
            client = connect(self.pod(vni).namespace, address, port, timeout=patience)
            if client is None:
                return count
            stack.enter_context(client)
        return most


@pytest.fixture(scope="module")
def exits() -> Iterator[Exits]:
    with pytest.MonkeyPatch.context() as patch, Lab(1, nat_ports=PORTS) as lab:
        patch.setattr(rulesets, "ACCOUNT_CONNECTIONS_MAX", HELD_MAX)
        yield Exits(lab)


def server(stack: ExitStack, exits: Exits, address: str, port: int) -> socket.socket:
    return stack.enter_context(tcp_server(exits.outside, address, port))


def test_one_account_cannot_use_up_the_ports_to_a_destination(exits: Exits) -> None:
    with ExitStack() as stack:
        server(stack, exits, OUTSIDE, 80)
        server(stack, exits, OUTSIDE, 81)
        assert exits.opened(stack, GREEDY, OUTSIDE, 80, SHARE - 1) == SHARE - 1
        assert exits.opened(stack, ALSO_GREEDY, OUTSIDE, 80, SHARE, 1) == 1, "the account's networks share it"
        assert exits.opened(stack, QUIET, OUTSIDE, 80, 2) == 2
        assert exits.opened(stack, GREEDY, OUTSIDE, 81, 2) == 2, "another destination"
        node = exits.lab.nodes[0]
        node.apply(
            node_ports=(NodePort(GREEDY, node.address, 30080, Protocol.TCP, IPv4Address("172.20.0.1"), 80),)
        )
        assert exits.opened(stack, GREEDY, OUTSIDE, 80, 1, 0) == 0, "new rules do not forget what is open"


def test_one_account_cannot_fill_the_table_of_connections(exits: Exits) -> None:
    with ExitStack() as stack:
        for port in range(9000, 9006):
            server(stack, exits, OTHER, port)
        made = [exits.opened(stack, GREEDY, OTHER, port, SHARE, 0) for port in range(9000, 9005)]
        assert sum(made) <= HELD_MAX
        assert exits.opened(stack, QUIET, OTHER, 9005, SHARE) == SHARE
