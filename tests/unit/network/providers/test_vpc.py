"""The layout of a VPC as a node needs it."""

from ipaddress import ip_network
from typing import Any

import pytest

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.network.owners import TenantNetworkId
from alcove.network.providers.base import SubnetLayout
from alcove.network.providers.vpc import node_layout


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
    found = node_layout(
        vpc(),
        [subnet("s2", "10.0.2.0"), subnet("s1", "10.0.1.0"), subnet("new", "10.0.3.0", "Init")],
        [duty("b1", "b", net="s1"), duty("b0", "a", net="s1"), duty("b2", "c", net="s2")],
        [duty("d0", "b"), duty("flat", "a", vni=99)],
    )
    assert found is not None
    assert (found.owner, found.vni) == (TenantNetworkId(TenantId("acme"), "blue"), 7)
    assert (found.network, found.dividers) == (ip_network("10.0.0.0/16"), ("b",))
    assert found.subnets == (
        SubnetLayout(ip_network("10.0.1.0/24"), ("a", "b")),
        SubnetLayout(ip_network("10.0.2.0/24"), ("c",)),
    )


def test_a_vpc_without_owner_has_a_layout() -> None:
    found = node_layout({**vpc(), "metadata": {"name": "v"}}, [], [], [])
    assert found is not None and found.owner is None


@pytest.mark.parametrize("spec", [{"status": "Init"}, {"vni": None}, {"ip": ""}])
def test_a_vpc_that_is_not_whole_is_none(spec: Object) -> None:
    assert node_layout(vpc(**spec), [], [], []) is None
