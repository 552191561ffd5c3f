"""Endpoint slices: addresses of the right family, in no special range, within limits."""

import pytest

from alcove.api.kinds.discovery import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["endpointslices"]


def endpoint_slice(kind: str, *addresses: str, **fields: object) -> Object:
    return {"addressType": kind, "endpoints": [{"addresses": list(addresses)}], **fields}


def with_endpoint(**fields: object) -> Object:
    return {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], **fields}]}


WHERE = "endpoints[0].addresses"
CASES: list[tuple[Object, list[str]]] = [
    (endpoint_slice("IPv4", "10.0.0.1"), []),
    (endpoint_slice("IPv6", "2001:db8::1"), []),
    (endpoint_slice("FQDN", "a.example.com.", "b.example.com"), []),
    ({}, ["addressType: Required value"]),
    (endpoint_slice("IPX", "1"), ['addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6"']),
    (endpoint_slice("IPv4"), [f"{WHERE}: Required value: must contain at least 1 address"]),
    (endpoint_slice("IPv4", *["10.0.0.1"] * 101), [f"{WHERE}: Too many: 101: must have at most 100 items"]),
    (endpoint_slice("IPv4", "2001:db8::1"), [f'{WHERE}: Invalid value: "2001:db8::1": must be an IPv4 address']),
    (endpoint_slice("IPv6", "10.0.0.1"), [f'{WHERE}: Invalid value: "10.0.0.1": must be an IPv6 address']),
    (endpoint_slice("IPv4", "10.0.0.256"), [
        f'{WHERE}[0]: Invalid value: "10.0.0.256": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
    (endpoint_slice("IPv4", "0.0.0.0", "127.1.2.3", "169.254.1.1", "224.0.0.5"), [
        f'{WHERE}[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
        f'{WHERE}[1]: Invalid value: "127.1.2.3": may not be in the loopback range (127.0.0.0/8, ::1/128)',
        f'{WHERE}[2]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)',
        f'{WHERE}[3]: Invalid value: "224.0.0.5": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)']),
    (endpoint_slice("IPv6", "::", "::1", "fe80::1", "ff02::1"), [
        f'{WHERE}[0]: Invalid value: "::": may not be unspecified (::)',
        f'{WHERE}[1]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
        f'{WHERE}[2]: Invalid value: "fe80::1": may not be in the link-local range (169.254.0.0/16, fe80::/10)',
        f'{WHERE}[3]: Invalid value: "ff02::1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)']),
    (endpoint_slice("FQDN", "local", ""), [
        f'{WHERE}[0]: Invalid value: "local": should be a domain with at least two segments separated by dots',
        f"{WHERE}[1]: Required value"]),
    (endpoint_slice("IPv4", "10.0.0.1", ports=[{"name": "a"}, {"name": "a"}, {}, {}]), [
        'ports[1].name: Duplicate value: "a"', 'ports[3].name: Duplicate value: ""']),
    (endpoint_slice("IPv4", "10.0.0.1", ports=[{"protocol": "ICMP"}]), [
        'ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"']),
    (with_endpoint(hints={"forZones": [{"name": "z"}, {"name": "z"}]}), [
        'endpoints[0].hints.forZones[1].name: Duplicate value: "z"']),
    (with_endpoint(hints={"forNodes": [{"name": str(n)} for n in range(9)]}), [
        "endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items"]),
    ({"addressType": "IPv4", "endpoints": [{}] * 1001}, ["endpoints: Too many: 1001: must have at most 1000 items"]),
    (with_endpoint(hostname="a.b"), ['endpoints[0].hostname: Invalid value: "a.b": must not contain dots']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), CASES)
def test_validate(obj: Object, expected: list[str]) -> None:
    STRATEGY.default(obj)
    assert [str(error) for error in STRATEGY.validate(obj)] == expected


def test_ports_are_named_and_tcp() -> None:
    obj = endpoint_slice("IPv4", "10.0.0.1", ports=[{"port": 80}])
    STRATEGY.default(obj)
    assert obj["ports"] == [{"port": 80, "name": "", "protocol": "TCP"}]


def test_old_topology_is_dropped() -> None:
    obj = with_endpoint(deprecatedTopology={"a": "b"})
    STRATEGY.prepare_create(obj)
    assert obj == with_endpoint()
    again = with_endpoint(deprecatedTopology={"a": "b"})
    STRATEGY.prepare_update(again, obj)
    assert again == with_endpoint()


def test_address_type_stays() -> None:
    [error] = STRATEGY.validate_update({"addressType": "IPv6"}, {"addressType": "IPv4"})
    assert str(error) == 'addressType: Invalid value: "IPv6": field is immutable'
