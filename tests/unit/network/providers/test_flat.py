"""The layout of a flat network as a node needs it."""

from ipaddress import ip_network

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.network.owners import TenantNetworkId
from alcove.network.providers.base import NetworkLayout, SubnetLayout
from alcove.network.providers.flat import FlatNetworks, node_layout

RANGE = ip_network("100.96.0.0/11")


def shared(status: str = "Provisioned") -> Object:
    return {"metadata": {"name": "net0"}, "spec": {"ip": "100.96.0.0", "prefix": 11, "status": status}}


def divider(**annotations: str) -> Object:
    metadata = {"name": "vni-99-d0", "annotations": annotations}
    return {"metadata": metadata, "spec": {"vpc": "vpc0", "vni": 99, "droplet": ""}}


def test_a_flat_network_has_a_number_of_its_own_and_no_bouncers() -> None:
    marked = divider(**{"arktos.futurewei.com/network": "acme/default"})
    assert node_layout(marked, shared()) == NetworkLayout(
        owner=TenantNetworkId(TenantId("acme"), "default"),
        vni=99,
        network=RANGE,
        subnets=(SubnetLayout(RANGE),),
    )
    assert node_layout(divider(), shared()) is None, "nobody's"
    assert node_layout(marked, shared("Init")) is None, "the shared subnet is not there yet"


def test_pods_have_one_interface_whatever_they_ask_for() -> None:
    assert FlatNetworks().interfaces({"spec": {"nics": [{"name": "a"}, {"name": "b"}]}}) == ["eth0"]
