from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.network import nics
from alcove.network.nics import RequestedNic
from alcove.network.provider_networks import ProviderNetwork
from alcove.vpc.addressing import AddressPool
from alcove.vpc.allocator import AddressRequest
from alcove.vpc.errors import AddressUnavailable, RequestRefused


def place(name: str, cidr: str) -> AddressPool:
    return AddressPool(vpc="vpc01", net=name, network=ip_network(cidr), scope=7, vni=7)


NET1, NET2 = place("net1", "10.0.1.0/24"), place("net2", "10.0.2.0/24")
BACKING = ProviderNetwork("vpc01", 7, ip_network("10.0.0.0/16"), {"net1": NET1, "net2": NET2})
OTHERS: dict[str, Object] = {
    "net3": {"spec": {"vpc": "vpc01"}},
    "theirs": {"spec": {"vpc": "vpc99"}},
}


def wanted(*given: dict[str, str]) -> list[RequestedNic]:
    return nics.requested_nics({"spec": {"nics": list(given)}}, BACKING, OTHERS, "green")


def test_without_subnet_and_address_the_first_subnet_with_free_addresses_is_used() -> None:
    assert nics.requested_nics({"spec": {}}, BACKING, {}, "green") == [
        RequestedNic("eth0", AddressRequest((NET1, NET2)))
    ]
    assert wanted({}) == [RequestedNic("eth0", AddressRequest((NET1, NET2)))]


def test_a_named_subnet_or_address_is_used() -> None:
    assert wanted({"subnet": "net2"}) == [RequestedNic("eth0", AddressRequest((NET2,)))]
    assert wanted({"subnet": "net1", "ip": "10.0.1.12"}) == [
        RequestedNic("eth0", AddressRequest((NET1,), ip_address("10.0.1.12")))
    ]
    assert wanted({"ip": "10.0.2.12"}) == [
        RequestedNic("eth0", AddressRequest((NET2,), ip_address("10.0.2.12")))
    ]


def test_several() -> None:
    found = wanted({"subnet": "net1"}, {"subnet": "net2", "name": "storage"}, {})
    assert [nic.interface for nic in found] == ["eth0", "storage", "eth2"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"subnet": "net1", "ip": "192.168.0.12"}], 'address 192.168.0.12 is outside subnet "net1" (10.0.1.0/24)'),
        ([{"subnet": "net1", "ip": "10.0.2.12"}], 'address 10.0.2.12 is outside subnet "net1" (10.0.1.0/24)'),
        ([{"subnet": "net1", "ip": "fd00::5"}], 'address fd00::5 is IPv6, but subnet "net1" (10.0.1.0/24) is IPv4'),
        ([{"ip": "10.0.1.1"}], 'address 10.0.1.1 is reserved in subnet "net1" (10.0.1.0/24)'),
        ([{"ip": "10.0.1.255"}], "is reserved in"),
        ([{"ip": "10.0.9.5"}], 'address 10.0.9.5 is in no subnet of network "green": net1 (10.0.1.0/24), net2 (10.0.2.0/24)'),
        ([{"ip": "10.0.1.5"}, {"ip": "10.0.1.5"}], "addresses must be unique"),
        ([{"name": "eth1"}, {}], "names must be unique"),
    ],
)  # fmt: skip
def test_what_can_never_be_is_refused(given: list[dict[str, str]], message: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        wanted(*given)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("subnet", "message"),
    [
        ("net9", 'network "green" has no subnet "net9"'),
        ("theirs", 'network "green" has no subnet "theirs"'),
        ("net3", 'subnet "net3" of network "green" is not ready'),
    ],
)
def test_a_missing_subnet_is_waited_for_like_one_of_another_tenant(subnet: str, message: str) -> None:
    with pytest.raises(AddressUnavailable, match=message):
        wanted({"subnet": subnet})


def test_the_names_of_interfaces() -> None:
    pod: dict[str, Any] = {"spec": {"nics": [{}, {"name": "storage"}]}}
    assert nics.names(pod) == ["eth0", "storage"]
    assert nics.names({"spec": {}}) == ["eth0"]
