"""A node reconciles for changes of the networks that it has, and not for those of others."""

from ipaddress import IPv4Address

import pytest

from alcove.agent.network.ring0 import Ring0View
from alcove.api.ids import SYSTEM, Revision
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.planes import Planes
from alcove.network.owners import NETWORK_MARK
from alcove.network.providers.all import PROVIDERS
from alcove.vpc.claims import divider_name
from alcove.vpc.defaults import DEFAULT_SUBNET, DEFAULT_VPC

MINE, OTHER = 7, 8


class Node:
    """A node with one flat network, whose mirrors are filled by hand."""

    def __init__(self, planes: Planes) -> None:
        self.reconciles = 0
        self.ring0 = Ring0View(planes, "node-1", PROVIDERS, self._changed)
        self._parts: dict[str, PlaneMirror] = {}
        self._revision = 0
        for mirror in planes.mirrors():
            self._parts[mirror.selection.resource.resource] = mirror.add_plane(HOME)
        subnet = {"vpc": DEFAULT_VPC, "ip": "10.0.0.0", "prefix": 8, "status": "Provisioned"}
        self.put("subnets", DEFAULT_SUBNET, subnet)
        self.put_flat(MINE)
        assert self.ring0.backing(DEFAULT_VPC, MINE) is not None
        self.reconciles = 0

    def _changed(self) -> None:
        self.reconciles += 1

    def put(self, resource: str, name: str, spec: Object, owner: str = "") -> None:
        self._revision += 1
        metadata = {"tenant": SYSTEM, "name": name, "annotations": {NETWORK_MARK: owner} if owner else {}}
        self._parts[resource].put({"metadata": metadata, "spec": spec}, Revision(self._revision))

    def put_flat(self, vni: int, owner: str = "acme/default") -> None:
        spec = {"vpc": DEFAULT_VPC, "vni": vni, "status": "Provisioned"}
        self.put("dividers", divider_name(vni, 0), spec, owner)

    def put_duty(self, resource: str, name: str, droplet: str, vpc: str = "shop") -> None:
        self.put(resource, name, {"vpc": vpc, "net": "shop-subnet", "vni": 9, "droplet": droplet})


@pytest.mark.parametrize("others", [10, 100])
async def test_networks_of_others_reconcile_nothing(others: int) -> None:
    async with Planes() as planes:
        node = Node(planes)
        for number in range(others):
            node.put_flat(OTHER + number, f"tenant-{number}/default")
            node.put("vpcs", f"vpc-{number}", {"vni": 1000 + number, "status": "Provisioned"})
            node.put(
                "subnets", f"vpc-{number}-subnet", {"vpc": f"vpc-{number}", "ip": "10.0.0.0", "prefix": 16}
            )
            node.put_duty("bouncers", f"bouncer-{number}", "node-2", f"vpc-{number}")
        assert node.reconciles == 0


async def test_a_change_of_its_own_network_is_seen() -> None:
    async with Planes() as planes:
        node = Node(planes)
        node.put_flat(MINE, "acme/renamed")
        assert node.reconciles == 1
        backing = node.ring0.backing(DEFAULT_VPC, MINE)
        assert backing is not None and backing.owner is not None and backing.owner.name == "renamed"
        node.put(
            "subnets",
            DEFAULT_SUBNET,
            {"vpc": DEFAULT_VPC, "ip": "10.0.0.0", "prefix": 9, "status": "Provisioned"},
        )
        assert node.reconciles == 2


async def test_a_network_that_was_not_complete_is_seen_when_it_is() -> None:
    async with Planes() as planes:
        node = Node(planes)
        assert node.ring0.backing(DEFAULT_VPC, OTHER) is None
        node.put_flat(OTHER)
        assert node.reconciles == 1 and node.ring0.backing(DEFAULT_VPC, OTHER) is not None


async def test_a_new_duty_and_its_vpc_are_seen() -> None:
    async with Planes() as planes:
        node = Node(planes)
        node.put_duty("bouncers", "b0", "node-1")
        assert node.reconciles == 1
        [duty] = node.ring0.duties()
        assert duty.vpc == "shop" and node.ring0.duty_backing(duty) is None
        node.put("vpcs", "shop", {"vni": 9, "ip": "10.1.0.0", "prefix": 16, "status": "Provisioned"})
        assert node.reconciles == 2 and node.ring0.duty_backing(duty) is not None
        node.put_duty("bouncers", "b0", "node-2")
        assert node.reconciles == 3 and not node.ring0.duties()


async def test_a_node_that_joins_changes_only_the_networks_that_use_it() -> None:
    async with Planes() as planes:
        node = Node(planes)
        node.put("vpcs", "shop", {"vni": 9, "ip": "10.1.0.0", "prefix": 16, "status": "Provisioned"})
        node.put(
            "subnets",
            "shop-subnet",
            {"vpc": "shop", "vni": 9, "ip": "10.1.0.0", "prefix": 16, "status": "Provisioned"},
        )
        node.put_duty("bouncers", "b0", "node-2")
        flat, shop = node.ring0.backing(DEFAULT_VPC, MINE), node.ring0.backing("shop", 9)
        assert flat is not None and shop is not None and shop.subnets[0].bouncers == ()
        node.reconciles = 0
        node.put("droplets", "node-3", {"ip": "192.0.2.3"})
        assert node.ring0.backing(DEFAULT_VPC, MINE) is flat and node.ring0.backing("shop", 9) is shop
        node.put("droplets", "node-2", {"ip": "192.0.2.2"})
        assert node.reconciles == 2, "every node has to know every other"
        assert node.ring0.backing(DEFAULT_VPC, MINE) is flat
        changed = node.ring0.backing("shop", 9)
        assert changed is not None and changed.subnets[0].bouncers == (IPv4Address("192.0.2.2"),)


async def test_addresses_of_nodes_are_the_same_object_until_one_changes() -> None:
    async with Planes() as planes:
        node = Node(planes)
        for number in (2, 3):
            node.put("droplets", f"node-{number}", {"ip": f"192.0.2.{number}"})
        nodes = node.ring0.nodes()
        assert nodes == {"node-2": IPv4Address("192.0.2.2"), "node-3": IPv4Address("192.0.2.3")}
        node.put("droplets", "node-2", {"ip": "192.0.2.2", "itf": "eth0"})
        assert node.ring0.nodes() is nodes
        node.put("droplets", "node-2", {"ip": "192.0.2.9"})
        assert node.ring0.nodes() is not nodes and node.ring0.nodes()["node-2"] == IPv4Address("192.0.2.9")
