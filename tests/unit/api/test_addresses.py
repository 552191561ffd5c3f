"""Addresses and ranges in fields."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api import addresses
from alcove.api.fields import FieldError


def bodies(errors: list[FieldError]) -> list[str]:
    return [error.body.split(": ", 2)[2] for error in errors]


NOT_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NOT_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("10.0.0.1", []),
        ("2001:db8::1", []),
        ("2001:DB8:0::1", []),
        ("::", []),
        ("010.0.0.1", ["must not have leading 0s"]),
        ("::ffff:1.2.3.4", ["must not be an IPv4-mapped IPv6 address"]),
        ("", [NOT_IP]),
        ("1.2.3", [NOT_IP]),
        ("1.2.3.4.5", [NOT_IP]),
        ("1.2.3.256", [NOT_IP]),
        ("fe80::1%eth0", [NOT_IP]),
        ("1.2.3.4/24", [NOT_IP]),
        (" 1.2.3.4", [NOT_IP]),
        ("1.2.3.4\0", [NOT_IP]),
        ("a" * 1_000_000, [NOT_IP]),
    ],
)
def test_ip(value: str, messages: list[str]) -> None:
    assert bodies(addresses.ip_errors("f", value)) == messages


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("10.0.0.0/8", []),
        ("2001:db8::/64", []),
        ("0.0.0.0/0", []),
        ("10.0.0.1/32", []),
        ("10.0.0.1/8", ["must not have bits set beyond the prefix length"]),
        ("010.0.0.0/8", ["must not have leading 0s in IP or prefix length"]),
        ("10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
        ("::ffff:1.2.3.0/120", ["must not have an IPv4-mapped IPv6 address"]),
        ("10.0.0.0/33", [NOT_CIDR]),
        ("10.0.0.0", [NOT_CIDR]),
        ("10.0.0.0/", [NOT_CIDR]),
        ("10.0.0.0/-1", [NOT_CIDR]),
        ("a/8", [NOT_CIDR]),
        ("", [NOT_CIDR]),
    ],
)
def test_cidr(value: str, messages: list[str]) -> None:
    assert bodies(addresses.cidr_errors("f", value)) == messages


def test_canonical_forms() -> None:
    assert bodies(addresses.canonical_ip_errors("f", "2001:DB8::1")) == [
        'must be in canonical form ("2001:db8::1")'
    ]
    assert bodies(addresses.canonical_ip_errors("f", "1.2.3.4")) == []
    assert bodies(addresses.canonical_cidr_errors("f", "2001:DB8::/64")) == [
        'must be in canonical form ("2001:db8::/64")'
    ]
    assert bodies(addresses.canonical_cidr_errors("f", "10.0.0.1/8")) == [
        "must not have bits set beyond the prefix length"
    ]


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("10.0.0.1", []),
        ("0.0.0.0", ["may not be unspecified (0.0.0.0)"]),
        ("127.0.0.1", ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]),
        ("::1", ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]),
        ("169.254.0.1", ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]),
        ("fe80::1", ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]),
        ("224.0.0.1", ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]),
        ("ff02::1", ["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]),
        ("x", ["must be a valid IP address"]),
    ],
)
def test_endpoint_ip(value: str, messages: list[str]) -> None:
    assert bodies(addresses.endpoint_ip_errors("f", value)) == messages


def test_family() -> None:
    assert [addresses.ip_family(text) for text in ("1.2.3.4", "::1", "10.0.0.0/8", "None", "")] == [
        "IPv4",
        "IPv6",
        "IPv4",
        "",
        "",
    ]


@given(st.ip_addresses())
def test_every_address_as_python_writes_it_is_canonical(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return
    assert addresses.canonical_ip_errors("f", str(address)) == []
    assert addresses.ip_family(str(address)) == f"IPv{address.version}"
