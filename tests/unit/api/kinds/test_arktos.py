"""Networks: what makes one valid, what stays."""

import pytest

from alcove.api.kinds.arktos import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["networks"]


def messages(spec: Object) -> list[str]:
    network = {"metadata": {"name": "n"}, "spec": spec}
    STRATEGY.default(network)
    return [str(error) for error in STRATEGY.validate(network)]


CASES: list[tuple[Object, list[str]]] = [
    ({"type": "flat"}, []),
    ({"type": "vpc", "vpcID": "vpc-1a2b3c4d"}, []),
    ({"type": "mizar", "service": {"ipam": "External"}}, []),
    ({"type": "vpc", "ip": "10.0.0.0", "prefix": "16", "subnets": ["a", "b"]}, []),
    ({"type": "flat", "service": {"cidrs": ["10.0.0.0/16", "192.168.0.0/24"]}}, []),
    ({}, ["spec.type: Required value"]),
    ({"type": "ring"}, ['spec.type: Unsupported value: "ring": supported values: "flat", "vpc", "mizar"']),
    ({"type": "vpc", "ip": "10.0.0.1", "prefix": 16}, [
        'spec.ip: Invalid value: "10.0.0.1": must be the first address of its /16 range: 10.0.0.0']),
    ({"type": "vpc", "subnets": ["a", "a"]}, ['spec.subnets[1]: Duplicate value: "a"']),
    ({"type": "vpc", "service": {"ipam": "Me"}}, [
        'spec.service.ipam: Unsupported value: "Me": supported values: "Arktos", "Kubernetes", "External"']),
    ({"type": "vpc", "service": {"cidrs": ["10.0.0.0/8", "10.1.0.0/16", "2001:db8::/64", "x"]}}, [
        'spec.service.cidrs[1]: Invalid value: "10.1.0.0/16": must not overlap 10.0.0.0/8',
        'spec.service.cidrs[3]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
    ({"type": "flat", "service": {"cidrs": [f"10.{index}.0.0/16" for index in range(9)]}}, [
        "spec.service.cidrs: Too many: 9: must have at most 8 items"]),
    ({"type": "vpc", "subnets": [f"s{index}" for index in range(65)]}, [
        "spec.subnets: Too many: 65: must have at most 64 items"]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_validate(spec: Object, expected: list[str]) -> None:
    assert messages(spec) == expected


def test_vpc_and_subnets_are_names() -> None:
    errors = messages({"type": "vpc", "vpcID": "VPC 1", "subnets": ["Sub_net"]})
    assert [error.split(": ")[0] for error in errors] == ["spec.vpcID", "spec.subnets[0]"]


def test_both_spellings_of_the_vpc() -> None:
    for given, expected in (
        ({"vpc-id": "a"}, "a"),
        ({"vpc-id": "a", "vpcID": "b"}, "b"),
        ({"vpcID": "b"}, "b"),
    ):
        network: Object = {"spec": dict(given)}
        STRATEGY.default(network)
        assert network["spec"] == {"vpcID": expected}


def test_a_new_network_waits() -> None:
    network: Object = {"spec": {"type": "flat"}}
    STRATEGY.prepare_create(network)
    assert network["status"] == {"phase": "Pending"}


def test_what_stays() -> None:
    old = {"spec": {"type": "vpc", "vpcID": "a", "ip": "10.0.0.0", "prefix": "16"}}
    new = {"spec": {"type": "flat", "vpcID": "b", "ip": "10.1.0.0", "prefix": 17}}
    assert [str(error) for error in STRATEGY.validate_update(new, old)] == [
        'spec.type: Invalid value: "flat": field is immutable',
        'spec.vpcID: Invalid value: "b": field is immutable once set',
        'spec.ip: Invalid value: "10.1.0.0": field is immutable once set',
        "spec.prefix: Invalid value: 17: field is immutable once set",
    ]
    filled = {"spec": {**old["spec"], "prefix": 16}}
    assert not STRATEGY.validate_update(filled, {"spec": {"type": "vpc"}})
    assert not STRATEGY.validate_update(filled, old)


def test_status() -> None:
    status = {"phase": "Sleeping", "dnsServiceIP": "10.0.0"}
    assert [str(error) for error in STRATEGY.validate_status({"status": status}, {})] == [
        'status.phase: Unsupported value: "Sleeping": supported values: "Pending", "Ready", "Failed", "Terminating", "Unknown"',
        'status.dnsServiceIP: Invalid value: "10.0.0": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ]
    assert not STRATEGY.validate_status({"status": {"phase": "Ready", "dnsServiceIP": "10.0.0.10"}}, {})


def test_tenants_are_found_here_too() -> None:
    assert STRATEGIES["tenants"].has_status
