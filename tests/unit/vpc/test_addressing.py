from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from alcove.api.ids import Revision
from alcove.api.kinds.mizar import SCALED
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.vpc import addressing
from alcove.vpc.addressing import AddressPool, EndpointPurpose
from alcove.vpc.vpc_cache import VpcCache

PLACE = AddressPool(vpc="v", net="n", network=ip_network("10.0.1.0/24"), scope=7, vni=7)
ADDRESS = ip_address("10.0.1.12")
NOW = 1714557601.25


@pytest.fixture
def world() -> VpcCache:
    """With one droplet, and without anybody to write to."""
    cache = VpcCache(Planes(), lambda: NOW)
    host = {
        "metadata": {"name": "node-1", "tenant": "system"},
        "spec": {"ip": "192.0.2.1", "status": "Provisioned"},
    }
    cache.droplets.add_plane(HOME).put(host, Revision(1))
    return cache


def build(cache: VpcCache, pool: AddressPool = PLACE, **purpose: Any) -> Object:
    given = {"owner_uid": "uid-1", "what": "t/ns/pod", "interface": "eth0", **purpose}
    return addressing.build(cache, pool, EndpointPurpose(**given), ADDRESS)


def test_an_endpoint_is_whole_in_one_write(world: VpcCache) -> None:
    endpoint = build(world, droplet="node-1")
    assert endpoint["metadata"] == {"name": "7-10.0.1.12", "labels": {"mizar.com/owner": "uid-1"}}
    assert endpoint["spec"] == {
        "type": "simple", "vpc": "v", "net": "n", "ip": "10.0.1.12", "prefix": 24, "gw": "10.0.1.1", "vni": 7,
        "mac": "0a:58:0a:00:01:0c", "itf": "eth0", "pod": "t/ns/pod", "droplet": "node-1",
        "hostip": "192.0.2.1", "status": "Provisioned", "createtime": "2024-05-01T10:00:01.250000Z",
        "provisiondelay": "0.000",
    }  # fmt: skip


def test_without_a_droplet_it_is_not_provisioned_yet(world: VpcCache) -> None:
    assert build(world)["spec"]["status"] == "Init"
    unknown = build(world, droplet="node-9")["spec"]
    assert (unknown["status"], unknown["droplet"]) == ("Init", "node-9")


def test_a_services_endpoint_is_everywhere(world: VpcCache) -> None:
    pool = AddressPool(vpc="v", network=ip_network("10.96.0.0/16"), scope=7, vni=7)
    spec = build(world, pool, kind=SCALED, interface="")["spec"]
    assert spec["status"] == "Provisioned" and not {"net", "gw", "itf", "droplet"} & set(spec)


def test_settling_moves_it_and_settles_once(world: VpcCache) -> None:
    endpoint = build(world)
    assert not addressing.is_settled(world, endpoint, "node-1")
    addressing.settle(world, endpoint, "node-1")
    assert endpoint["spec"]["hostip"] == "192.0.2.1" and endpoint["spec"]["status"] == "Provisioned"
    assert addressing.is_settled(world, endpoint, "node-1")
    addressing.settle(world, endpoint, "")
    assert "droplet" not in endpoint["spec"] and endpoint["spec"]["status"] == "Init"


def test_a_shared_range_has_a_number_of_its_own_on_the_wire() -> None:
    subnet = {
        "metadata": {"name": "net0"},
        "spec": {"ip": "100.96.0.0", "prefix": 11, "vni": 1, "vpc": "vpc0"},
    }
    pool = addressing.pool_in(subnet, vni=4711)
    assert (pool.scope, pool.vni, pool.vpc, pool.net) == (1, 4711, "vpc0", "net0")
    assert addressing.pool_in(subnet).vni == 1


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("10.0.2.5", 'address 10.0.2.5 is outside subnet "n" (10.0.1.0/24)'),
        ("10.0.1.1", 'address 10.0.1.1 is reserved in subnet "n" (10.0.1.0/24)'),
        ("fd00::5", 'address fd00::5 is IPv6, but subnet "n" (10.0.1.0/24) is IPv4'),
    ],
)
def test_why_an_address_cannot_be_had(address: str, message: str) -> None:
    assert addressing.out_of_range(ip_address(address), PLACE) == message
