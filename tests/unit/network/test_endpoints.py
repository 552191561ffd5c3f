"""The owners of addresses, read from ring0's endpoints."""

from ipaddress import ip_address, ip_interface
from typing import Any

import pytest

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.network import endpoints
from alcove.network.owners import OwnerRef
from alcove.network.policy import NamedPort


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


def test_a_nic_is_read_from_its_endpoint() -> None:
    nic = endpoints.nic_of(endpoint())
    assert nic == endpoints.PodNic(
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
    assert endpoints.nic_of(endpoint(**spec)) is None


def test_a_holding_knows_node_ports_by_name_and_ports_by_their_mark() -> None:
    door = endpoint("port-30080-udp", type="door", ip="")
    assert endpoints.allocation_of(door).node_port == (30080, "UDP")
    pod = endpoint()
    pod["metadata"]["annotations"] = {"arktos.futurewei.com/ports": "web/TCP/80,dns/UDP/53"}
    assert endpoints.allocation_of(pod).ports == (NamedPort("web", "TCP", 80), NamedPort("dns", "UDP", 53))


def test_an_endpoint_is_found_by_its_owners_uid() -> None:
    assert list(endpoints.by_owner(endpoint())) == ["u1"]
    assert list(endpoints.by_owner({"metadata": {"name": "7-10.0.0.6"}})) == []
