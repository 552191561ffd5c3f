"""Rules of one network that nftables refuses cost that network, and no other."""

import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address, ip_interface, ip_network

import pytest

from alcove.dataplane import gateways as module
from alcove.dataplane import rule_loader
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import DataplaneNetwork, DataplaneState, Gateway, NodePort, Protocol, Vpc
from alcove.dataplane.namespaces import path_of
from alcove.dataplane.rulesets import Uplink, exit_ruleset, gateway_ruleset
from alcove.testing.nodes import Lab, LabNode

BAD, GOOD = 8201, 8202
NONSENSE = "table ip alcove { chain forward { nonsense } }\n"
VPC, SERVICE = ip_network("10.0.0.0/16"), IPv4Address("172.20.0.9")


@pytest.fixture
def node() -> Iterator[LabNode]:
    with Lab(1) as lab:
        yield lab.nodes[0]


def apply(node: LabNode, *vnis: int, port: int = 30_000) -> None:
    node.apply(
        networks=tuple(DataplaneNetwork(vni) for vni in vnis),
        vpcs=tuple(Vpc(vni, (VPC,)) for vni in vnis),
        gateways=tuple(
            Gateway(vni, (ip_interface("10.0.1.1/24"),), IPv4Address("10.0.1.240")) for vni in vnis
        ),
        node_ports=tuple(
            NodePort(vni, node.address, port + vni - BAD, Protocol.TCP, SERVICE, 80) for vni in vnis
        ),
    )


def rules_in(namespace: str) -> str:
    command = ["nsenter", f"--net={path_of(namespace)}", "nft", "list", "ruleset"]
    return subprocess.check_output(command, text=True)


def links_in(namespace: str) -> str:
    return subprocess.check_output(["nsenter", f"--net={path_of(namespace)}", "ip", "-br", "link"], text=True)


def test_a_gateway_whose_rules_are_refused_fails_alone(
    node: LabNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was applied on the node any more, for any network."""

    def build(
        gateway: Gateway, state: DataplaneState, uplink: Uplink, *, six: bool = False, kernel6: bool = True
    ) -> str:
        rules = gateway_ruleset(gateway, state, uplink, six=six, kernel6=kernel6)
        return rules + NONSENSE if gateway.vni == BAD else rules

    gateways = node.plane.gateways
    with monkeypatch.context() as patch:
        patch.setattr(module, "gateway_ruleset", build)
        apply(node, BAD, GOOD)
        assert set(gateways.failed) == {BAD} and "nonsense" in gateways.failed[BAD]
        assert "dnat to 172.20.0.9:80" in rules_in(gateways.namespace_name(GOOD))
        assert "net@" not in links_in(gateways.namespace_name(BAD)), "no link without its rules"
        apply(node, BAD, GOOD, port=31_000)
        assert f"tcp dport {31_000 + GOOD - BAD}" in rules_in(f"{gateways.prefix}exit")
    apply(node, BAD, GOOD)
    assert not gateways.failed and "net@" in links_in(gateways.namespace_name(BAD))


def test_node_ports_whose_rules_are_refused_are_left_out_of_the_exit(
    node: LabNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All networks' node ports are rules of one set."""

    def build(
        settings: object, state: DataplaneState, uplinks: dict[int, Uplink], *, kernel6: bool = True
    ) -> str:
        rules = exit_ruleset(node.plane.settings, state, uplinks, kernel6=kernel6)
        return rules + NONSENSE if any(each.vni == BAD for each in state.node_ports) else rules

    tries: list[tuple[str, ...]] = []
    nft = rule_loader._nft

    def counted(namespace: str, rules: str, *options: str) -> str:
        tries.append(options)
        return nft(namespace, rules, *options)

    gateways, out = node.plane.gateways, f"{node.plane.gateways.prefix}exit"
    with monkeypatch.context() as patch:
        patch.setattr(module, "exit_ruleset", build)
        apply(node, BAD, GOOD)
        assert set(gateways.failed) == {BAD}
        assert f"tcp dport {30_000 + GOOD - BAD}" in rules_in(out) and "tcp dport 30000" not in rules_in(out)
        patch.setattr(rule_loader, "_nft", counted)
        apply(node, BAD, GOOD)
        assert set(gateways.failed) == {BAD} and not tries, "it is not tried again with every change"
        patch.setattr(module, "exit_ruleset", lambda *_, **__: NONSENSE)
        with pytest.raises(DataPlaneError):
            apply(node, BAD, GOOD)
    apply(node, BAD, GOOD)
    assert not gateways.failed and "tcp dport 30000" in rules_in(out)
