"""Ranges of addresses: both parts or none, the proper first address, numbers in either spelling."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.kinds.ranges import read_number, unchanged_once_set, validate_range
from alcove.api.objects import Object

CASES: list[tuple[Object, list[str]]] = [
    ({}, []),
    ({"ip": "10.0.0.0", "prefix": 16}, []),
    ({"ip": "10.0.0.0", "prefix": "16"}, []),
    ({"ip": "2001:db8::", "prefix": 64}, []),
    ({"ip": "10.0.0.0"}, ["spec.prefix: Required value: must be given together with `ip`"]),
    ({"prefix": 8}, ["spec.ip: Required value: must be given together with `prefix`"]),
    ({"ip": "10.0.0.5", "prefix": 16}, [
        'spec.ip: Invalid value: "10.0.0.5": must be the first address of its /16 range: 10.0.0.0']),
    ({"ip": "10.0.0", "prefix": 16}, [
        'spec.ip: Invalid value: "10.0.0": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
    ({"ip": "10.0.0.0", "prefix": 31}, ["spec.prefix: Invalid value: 31: must be between 1 and 30, inclusive"]),
    ({"ip": "10.0.0.0", "prefix": "wide"}, [
        'spec.prefix: Invalid value: "wide": must be between 1 and 30, inclusive']),
    ({"ip": "10.0.0.0", "prefix": "-8"}, ['spec.prefix: Invalid value: "-8": must be between 1 and 30, inclusive']),
    ({"ip": "2001:db8::1", "prefix": 64}, [
        'spec.ip: Invalid value: "2001:db8::1": must be the first address of its /64 range: 2001:db8::']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_range(spec: Object, expected: list[str]) -> None:
    assert [str(error) for error in validate_range(spec, "spec")] == expected


@given(st.ip_addresses(v=4), st.integers(1, 30))
def test_only_the_first_address_of_a_range_is_one(address: ipaddress.IPv4Address, prefix: int) -> None:
    network = ipaddress.ip_network(f"{address}/{prefix}", strict=False)
    assert not validate_range({"ip": str(network.network_address), "prefix": prefix}, "spec")
    is_first = address == network.network_address
    assert bool(validate_range({"ip": str(address), "prefix": str(prefix)}, "spec")) is not is_first


def test_numbers() -> None:
    assert read_number("16") == read_number(16) == 16
    for odd in ("", "x", "1.5", "-1", "１"):
        assert read_number(odd) is None


def test_once_set() -> None:
    assert not unchanged_once_set({"prefix": 16, "ip": "10.0.0.0"}, {"prefix": "16"}, "spec", "prefix", "ip")
    assert [str(error) for error in unchanged_once_set({}, {"ip": "10.0.0.0"}, "spec", "ip")] == [
        "spec.ip: Invalid value: null: field is immutable once set"
    ]
