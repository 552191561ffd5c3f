"""The destinations that tenants may choose."""

from ipaddress import ip_address, ip_network

import pytest

from alcove.api import destinations


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.9.9.9",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "240.0.0.1",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "192.88.99.1",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:a00:1::",
        "2001::1",
        "2001:db8::1",
        "fe80::1",
        "fd00::1",
        "fec0::1",
        "ff0e::1",
        "100::1",
        "3fff::1",
    ],
)
def test_private_and_special_addresses_are_rejected(text: str) -> None:
    assert not destinations.permitted(ip_address(text), (), ())


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_permitted_unless_they_are_nodes(text: str) -> None:
    address = ip_address(text)
    assert destinations.permitted(address, (), ())
    own = destinations.parse(text)
    assert own is not None
    assert not destinations.permitted(address, (), {own})


def test_what_ring0_allows_is_allowed() -> None:
    allowed = destinations.networks(["10.1.0.0/16", "fd00::/8"])
    assert destinations.permitted(ip_address("10.1.2.3"), allowed, {ip_address("10.1.2.3")})
    assert destinations.permitted(ip_address("::ffff:10.1.2.3"), allowed, ())
    assert destinations.permitted(ip_address("fd12::1"), allowed, ())
    assert not destinations.permitted(ip_address("10.2.0.1"), allowed, ())
    with pytest.raises(ValueError, match="host bits"):
        destinations.networks(["10.0.0.1/8"])


@pytest.mark.parametrize(
    ("text", "is_address"),
    [("10.0.0.1", True), ("[::1]", True), ("example.com", False), ("0x7f.1", False), ("127.1", False)],
)
def test_a_host_is_an_address_or_a_name(text: str, is_address: bool) -> None:
    assert (destinations.parse(text) is not None) is is_address


def test_ranges_that_are_not_public_do_not_overlap() -> None:
    ranges = destinations.NOT_PUBLIC
    overlaps = [
        (a, b) for a in ranges for b in ranges if a is not b and a.version == b.version and a.overlaps(b)
    ]
    assert overlaps == []


def test_a_network_is_within_one_range_of_its_family() -> None:
    ranges = destinations.networks(["10.0.0.0/8", "11.0.0.0/8", "fd00::/8"])
    for text, expected in (
        ("10.1.0.0/16", True),
        ("10.0.0.0/7", False),
        ("fd01::/16", True),
        ("::/0", False),
    ):
        assert destinations.is_within(ip_network(text), ranges) is expected
    assert all(destinations.is_within(each, destinations.NOT_PUBLIC) for each in destinations.UNREACHABLE)
