"""Kubernetes objects as the DNS server reads them."""

from ipaddress import ip_address

import pytest

from alcove.api.objects import Object
from alcove.dns.model import DnsEndpoint, DnsPod, DnsPort, DnsService, EndpointSlice, ObjectId
from alcove.dns.objects import pod_of, service_of, slice_of

META = {"namespace": "default", "name": "web"}
WEB = ObjectId("default", "web")
HTTP = {"name": "http", "port": 80, "targetPort": 8080}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9", "fd00::9"], "ports": [HTTP, {"port": 53, "protocol": "UDP"}]},
            DnsService(WEB, (ip_address("10.96.0.9"), ip_address("fd00::9")), (DnsPort("http", "TCP", 80), DnsPort("", "UDP", 53))),
        ),
        ({"clusterIP": "10.96.0.9"}, DnsService(WEB, (ip_address("10.96.0.9"),))),
        (
            {"clusterIP": "None", "clusterIPs": ["None"], "publishNotReadyAddresses": True},
            DnsService(WEB, publish_not_ready=True),
        ),
        ({"type": "ExternalName", "externalName": "example.org"}, DnsService(WEB, external_name="example.org")),
        ({"type": "ExternalName"}, None),
        ({"ports": [HTTP]}, None),
        ({"clusterIP": "nonsense"}, None),
    ],
)  # fmt: skip
def test_services(spec: Object, expected: DnsService | None) -> None:
    assert service_of({"metadata": META, "spec": spec}) == expected


def test_a_slice_without_a_service_or_with_names_for_addresses_is_left_out() -> None:
    assert slice_of({"metadata": META, "addressType": "IPv4"}) is None
    labelled = {**META, "labels": {"kubernetes.io/service-name": "web"}}
    assert slice_of({"metadata": labelled, "addressType": "FQDN"}) is None


def test_an_endpoint_is_ready_unless_its_condition_is_false() -> None:
    obj = {
        "metadata": {
            "namespace": "default",
            "name": "web-x",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "any"}],
        "endpoints": [
            {"addresses": ["10.0.0.1"], "hostname": "web-0", "conditions": {"ready": True}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
            {"addresses": ["10.0.0.3"]},
        ],
    }
    assert slice_of(obj) == EndpointSlice(
        ObjectId("default", "web-x"),
        "web",
        (DnsPort("http", "TCP", 8080),),
        (
            DnsEndpoint((ip_address("10.0.0.1"),), "web-0"),
            DnsEndpoint((ip_address("10.0.0.2"),), ready=False),
            DnsEndpoint((ip_address("10.0.0.3"),)),
        ),
    )


@pytest.mark.parametrize(
    ("spec", "status", "addresses"),
    [
        ({}, {"podIP": "10.0.0.1"}, ["10.0.0.1"]),
        (
            {},
            {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
            ["10.0.0.1", "fd00::1"],
        ),
        ({}, {}, []),
        ({"hostNetwork": True}, {"podIP": "192.0.2.1"}, []),
        ({}, {"podIP": "10.0.0.1", "phase": "Succeeded"}, []),
    ],
)
def test_pods(spec: Object, status: Object, addresses: list[str]) -> None:
    expected = DnsPod(WEB, tuple(map(ip_address, addresses))) if addresses else None
    assert pod_of({"metadata": META, "spec": spec, "status": status}) == expected
