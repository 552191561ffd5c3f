"""Ring0's objects read: whose an address is, and what networks are made of."""

from ipaddress import IPv4Address, ip_address, ip_interface, ip_network
from typing import Any

import pytest

from alcove.agent.network import fabric
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.dataplane.model import Endpoint, Subnet, Vpc
from alcove.network.owners import NetworkId, OwnerRef
from alcove.network.policy import NamedPort

NODES = {"a": IPv4Address("192.0.2.1"), "b": IPv4Address("192.0.2.2")}


def endpoint(name: str = "7-10.0.0.5", **spec: Any) -> Object:
    given = {
        "type": "simple",
        "status": "Provisioned",
        "vpc": "v",
        "net": "s",
        "vni": 7,
        "ip": "10.0.0.5",
        "prefix": 24,
        "gw": "10.0.0.1",
        "mac": "0a:58:0a:00:00:05",
        "itf": "eth0",
        "pod": "acme/default/web",
        "droplet": "a",
        **spec,
    }
    return {"metadata": {"name": name, "labels": {"mizar.com/owner": "u1"}}, "spec": given}


def test_a_nic_is_what_the_endpoint_says() -> None:
    nic = fabric.nic_of(endpoint())
    assert nic == fabric.Nic(
        pod=OwnerRef(TenantId("acme"), "default", "web"),
        interface="eth0",
        vpc="v",
        vni=7,
        address=ip_interface("10.0.0.5/24"),
        mac="0a:58:0a:00:00:05",
        gateway=ip_address("10.0.0.1"),
    )


@pytest.mark.parametrize(
    "spec",
    [{"type": "scaled"}, {"type": "gateway"}, {"status": "Init"}, {"pod": "gateway on a"}, {"vni": None}],
)
def test_what_is_no_pods_or_not_placed_is_no_nic(spec: Object) -> None:
    assert fabric.nic_of(endpoint(**spec)) is None


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, Endpoint(7, ip_address("10.0.0.5"), NODES["a"])),
        ({"type": "gateway", "droplet": "b"}, Endpoint(7, ip_address("10.0.0.5"), NODES["b"])),
        ({"droplet": "gone"}, None),
        ({"droplet": ""}, None),
        ({"type": "scaled"}, None),
        ({"type": "door", "ip": ""}, None),
    ],
)
def test_where_an_address_is(spec: Object, found: Endpoint | None) -> None:
    assert fabric.located(fabric.holding_of(endpoint(**spec)), NODES) == found


def test_a_holding_knows_node_ports_by_name_and_ports_by_their_mark() -> None:
    door = endpoint("port-30080-udp", type="door", ip="")
    assert fabric.holding_of(door).node_port == (30080, "UDP")
    pod = endpoint()
    pod["metadata"]["annotations"] = {"arktos.futurewei.com/ports": "web/TCP/80,dns/UDP/53"}
    assert fabric.holding_of(pod).ports == (NamedPort("web", "TCP", 80), NamedPort("dns", "UDP", 53))


def test_nodes_are_droplets_with_an_ipv4_address() -> None:
    droplets = [
        {"metadata": {"name": name}, "spec": {"ip": ip}}
        for name, ip in (("a", "192.0.2.1"), ("six", "fd00::1"), ("none", ""))
    ]
    assert fabric.nodes_of(droplets) == {"a": NODES["a"]}


def vpc(**spec: Any) -> Object:
    given = {"ip": "10.0.0.0", "prefix": 16, "vni": 7, "status": "Provisioned", **spec}
    return {
        "metadata": {"name": "v", "annotations": {"arktos.futurewei.com/network": "acme/blue"}},
        "spec": given,
    }


def subnet(name: str, ip: str, status: str = "Provisioned") -> Object:
    return {"metadata": {"name": name}, "spec": {"ip": ip, "prefix": 24, "vpc": "v", "status": status}}


def duty(name: str, droplet: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"vpc": "v", "vni": 7, "droplet": droplet, **spec}}


def test_a_vpc_with_its_subnets_and_who_knows_them() -> None:
    backing = fabric.backing_of_vpc(
        vpc(),
        [subnet("s2", "10.0.2.0"), subnet("s1", "10.0.1.0"), subnet("new", "10.0.3.0", "Init")],
        [duty("b1", "b", net="s1"), duty("b0", "a", net="s1"), duty("b2", "gone", net="s2")],
        [duty("d0", "b"), duty("flat", "a", vni=99)],
        NODES,
    )
    assert backing is not None
    assert backing.owner == NetworkId(TenantId("acme"), "blue")
    assert backing.vpc == Vpc(7, (ip_network("10.0.0.0/16"),), (NODES["b"],))
    assert backing.subnets == (
        Subnet(7, ip_network("10.0.1.0/24"), (NODES["a"], NODES["b"])),
        Subnet(7, ip_network("10.0.2.0/24")),
    )
    assert backing.gateways == (ip_interface("10.0.1.1/24"), ip_interface("10.0.2.1/24"))
    assert (backing.gateway(4), backing.gateway(6)) == (ip_address("10.0.1.1"), None)


@pytest.mark.parametrize("spec", [{"status": "Init"}, {"vni": None}, {"ip": ""}])
def test_a_vpc_that_is_not_whole_is_none(spec: Object) -> None:
    assert fabric.backing_of_vpc(vpc(**spec), [], [], [], NODES) is None


def test_a_flat_network_has_a_number_of_its_own_and_no_bouncers() -> None:
    divider = duty("vni-99-d0", "", vni=99, vpc="vpc0")
    shared = {
        "metadata": {"name": "net0"},
        "spec": {"ip": "100.96.0.0", "prefix": 11, "status": "Provisioned"},
    }
    assert fabric.backing_of_flat(divider, shared) is None, "nobody's"
    divider["metadata"]["annotations"] = {"arktos.futurewei.com/network": "acme/default"}
    backing = fabric.backing_of_flat(divider, shared)
    assert backing is not None
    assert backing.subnets == (Subnet(99, ip_network("100.96.0.0/11")),)
    assert backing.owner == NetworkId(TenantId("acme"), "default")
