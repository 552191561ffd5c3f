from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.addresses import Network
from alcove.api.kinds.ranges import gateway
from alcove.vpc import ranges
from alcove.vpc.errors import RequestRefused


def test_a_range_is_read_however_its_prefix_is_written() -> None:
    assert ranges.range_of({"spec": {"ip": "10.0.0.0", "prefix": "16"}}) == ip_network("10.0.0.0/16")
    assert ranges.range_of({"spec": {"ip": "fd00::", "prefix": 64}}) == ip_network("fd00::/64")
    assert ranges.range_of({"spec": {}}) is None
    assert ranges.range_of({"spec": {"ip": "10.0.0.0"}}) is None


@pytest.mark.parametrize(
    ("network", "first", "last"),
    [
        ("10.0.1.0/24", "10.0.1.2", "10.0.1.254"),
        ("10.0.0.0/30", "10.0.0.2", "10.0.0.2"),
        ("10.0.0.0/8", "10.0.0.2", "10.255.255.254"),
        ("fd00::/64", "fd00::2", "fd00::ffff:ffff:ffff:ffff"),
        ("fd00::/126", "fd00::2", "fd00::3"),
    ],
)
def test_the_first_two_addresses_and_broadcast_are_not_assigned(network: str, first: str, last: str) -> None:
    whole = ip_network(network)
    assert ranges.first_usable(whole) == int(ip_address(first))
    assert ranges.last_usable(whole) == int(ip_address(last))
    assert gateway(whole) == whole.network_address + 1
    assert not ranges.is_usable(whole, gateway(whole))
    assert ranges.is_usable(whole, ip_address(first)) and ranges.is_usable(whole, ip_address(last))
    assert not ranges.is_usable(whole, ip_address("192.168.0.1"))


@pytest.mark.parametrize(
    ("part", "whole", "inside"),
    [
        ("10.0.1.0/24", "10.0.0.0/16", True),
        ("10.0.0.0/16", "10.0.0.0/16", True),
        ("10.0.0.0/8", "10.0.0.0/16", False),
        ("10.1.0.0/24", "10.0.0.0/16", False),
        ("fd00::/64", "10.0.0.0/16", False),
        ("fd00::/64", "fd00::/48", True),
    ],
)
def test_inside(part: str, whole: str, inside: bool) -> None:
    assert ranges.is_inside(ip_network(part), ip_network(whole)) is inside


def test_new_ranges_are_unused_while_there_are_any() -> None:
    usage = ranges.RangeUsage([ip_network("10.0.0.0/16"), ip_network("10.96.0.0/12")])
    seen = set()
    for _ in range(256 - 1 - 16):
        found = usage.fresh()
        assert found not in seen and not found.overlaps(ip_network("10.96.0.0/12"))
        seen.add(found)
        usage.count(found, 1)
    assert ip_network("10.0.0.0/16") not in seen
    again = usage.fresh()
    assert again == ip_network("10.1.0.0/16"), "all are used: the lowest of those that fewest use"
    usage.count(ip_network("10.7.0.0/16"), -1)
    assert usage.fresh() == ip_network("10.7.0.0/16")


def test_used_ranges_of_other_sizes_are_avoided() -> None:
    usage = ranges.RangeUsage()
    usage.count(ip_network("10.0.0.0/9"), 1)
    usage.count(ip_network("10.128.3.0/24"), 1)
    usage.count(ip_network("172.16.0.0/12"), 1)
    usage.count(ip_network("fd00::/48"), 1)
    assert usage.fresh() == ip_network("10.129.0.0/16")
    usage.count(ip_network("10.0.0.0/8"), 1)
    usage.count(ip_network("10.0.0.0/9"), -1)
    assert usage.fresh() == ip_network("10.0.0.0/16")


parts = st.integers(24, 30).flatmap(
    lambda prefix: st.integers(0, (1 << (prefix - 24)) - 1).map(
        lambda at: ip_network((int(ip_address("10.0.0.0")) + at * (1 << (32 - prefix)), prefix))
    )
)


@given(taken=st.lists(parts, max_size=12), prefix=st.integers(24, 30))
def test_a_free_part_is_the_lowest_that_overlaps_nothing(taken: list[Network], prefix: int) -> None:
    whole = ip_network("10.0.0.0/24")
    expected = next(
        (part for part in whole.subnets(new_prefix=prefix) if not any(part.overlaps(t) for t in taken)),
        None,
    )
    assert ranges.free_part(whole, taken, prefix) == expected


def test_a_free_part_of_a_huge_range_is_found_at_once() -> None:
    assert ranges.free_part(ip_network("fd00::/8"), [ip_network("fd00::/64")], 64) == ip_network(
        "fd00:0:0:1::/64"
    )
    assert ranges.free_part(ip_network("10.0.0.0/16"), [], 8) is None


def test_fresh_ranges_are_beside_what_is_to_be_avoided() -> None:
    usage = ranges.RangeUsage()
    assert usage.fresh([ip_network("10.0.0.0/15"), ip_network("fd00::/64")]) == ip_network("10.2.0.0/16")
    with pytest.raises(RequestRefused, match="no free range in"):
        usage.fresh([ip_network("10.0.0.0/8")])
