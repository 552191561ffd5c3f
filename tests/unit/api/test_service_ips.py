"""Where a network's service addresses are from, and the names that claim them."""

from ipaddress import ip_network

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api import service_ips
from alcove.api.addresses import ip_errors
from alcove.api.encode import encode
from alcove.api.ids import TenantId
from alcove.api.objects import Object

ADDRESSES = st.ip_addresses().map(str).filter(lambda text: not ip_errors("", text))
"""Those that a service may have: not IPv4 in IPv6."""


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"type": "flat"}, {}, ["10.96.0.0/16"]),
        ({"type": "flat", "service": {"cidrs": ["10.7.0.0/24"]}}, {}, ["10.7.0.0/24"]),
        ({"type": "vpc", "ip": "10.0.0.0", "prefix": 16}, {}, ["10.96.0.0/16"]),
        ({"type": "vpc", "ip": "10.0.0.0", "prefix": 8}, {}, ["172.31.0.0/16"]),
        ({"type": "vpc", "ip": "10.0.0.0", "prefix": "8"}, {}, ["172.31.0.0/16"]),
        ({"type": "vpc", "ip": "fd00::", "prefix": 64}, {}, ["fd96::/108"]),
        ({"type": "vpc", "ip": "0.0.0.0", "prefix": 0}, {}, []),
        ({"type": "vpc"}, {}, []),
        ({"type": "vpc", "vpcID": "old"}, {}, []),
        ({"type": "vpc", "vpcID": "old"}, {"serviceCIDRs": ["172.31.0.0/16"]}, ["172.31.0.0/16"]),
        ({"type": "vpc"}, {"serviceCIDRs": ["nonsense", "10.96.0.0/16"]}, ["10.96.0.0/16"]),
        # A client may have written any number of them.
        (
            {"type": "vpc"},
            {"serviceCIDRs": [f"10.{index}.0.0/16" for index in range(200)]},
            [f"10.{index}.0.0/16" for index in range(service_ips.SERVICE_RANGES_MAX)],
        ),
    ],
)
def test_the_ranges_are_known_when_they_are_certain(
    spec: Object, status: Object, expected: list[str]
) -> None:
    found = service_ips.known_ranges({"spec": spec, "status": status})
    assert found == tuple(map(ip_network, expected))


@given(ADDRESSES, st.sampled_from(["default", "blue", "7.blue", "1.2.3.4"]))
def test_an_address_is_read_back_from_its_claim(address: str, network: str) -> None:
    name = service_ips.claim_name(network, address)
    assert service_ips.claimed_address(name) == address
    assert (name == address) == (network == "default")


@pytest.mark.parametrize("name", ["", "web", "10.96.0", "10.96.0.07", "10.96.0.256", "FD96::5", "fd96:0::5"])
def test_other_names_claim_nothing(name: str) -> None:
    assert service_ips.claimed_address(name) == ""


def test_one_address_has_one_claim_however_it_is_spelled() -> None:
    assert service_ips.claim_name("default", "FD96:0:0::0005") == "fd96::5"


def test_a_claim_names_its_service() -> None:
    service = {"metadata": {"namespace": "shop", "name": "web"}}
    body = service_ips.encoded_claim(
        TenantId("acme"), "10.96.1.7.blue", service, "5adec381", "2026-05-01T10:00:00Z"
    )
    claim = orjson.loads(body)
    assert encode(claim) == body
    assert claim["metadata"] == {
        "name": "10.96.1.7.blue",
        "labels": {service_ips.FAMILY_LABEL: "IPv4", service_ips.MANAGED_LABEL: service_ips.MANAGED_BY},
        "tenant": "acme",
        "uid": "5adec381",
        "creationTimestamp": "2026-05-01T10:00:00Z",
        "selfLink": "/apis/networking.k8s.io/v1/tenants/acme/ipaddresses/10.96.1.7.blue",
    }
    assert service_ips.is_claimed_by(claim, service)
    assert not service_ips.is_claimed_by(claim, {"metadata": {"namespace": "shop", "name": "api"}})
    other = {"spec": {"parentRef": {**claim["spec"]["parentRef"], "group": "example.com"}}}
    assert not service_ips.is_claimed_by(other, service)
