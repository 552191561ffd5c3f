"""Addresses of both families in one layout."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.dataplane.address import host_prefix, pack, pack_mac, pack_prefix, unpack

either = st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(0, 2**128 - 1).map(IPv6Address)


@given(either)
def test_what_was_packed_is_unpacked(address: IPv4Address | IPv6Address) -> None:
    raw = pack(address)
    assert len(raw) == 16
    if not (isinstance(address, IPv6Address) and address.ipv4_mapped):
        assert unpack(raw) == address


def test_prefixes_count_the_mapped_bits() -> None:
    assert pack_prefix(ip_network("10.0.0.0/8"))[0] == 104
    assert pack_prefix(ip_network("fd00::/8"))[0] == 8
    assert host_prefix(IPv4Address("10.0.0.1")).prefixlen == 32
    assert host_prefix(IPv6Address("fd00::1")).prefixlen == 128


def test_macs() -> None:
    assert pack_mac("0e:00:00:00:00:ff") == bytes.fromhex("0e00000000ff")
    for bad in ("", "0e:00", "zz:00:00:00:00:00", "0e:00:00:00:00:00:00"):
        with pytest.raises(ValueError, match=r"MAC|hexadecimal"):
            pack_mac(bad)
