from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api import names
from alcove.api.addresses import Address
from alcove.api.kinds.mizar import VNI_MAX
from alcove.vpc import claims

addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))
scopes = st.integers(1, VNI_MAX)


@given(scopes, addresses)
def test_a_claim_is_read_back_from_its_name(scope: int, address: Address) -> None:
    name = claims.endpoint_name(scope, address)
    assert not names.dns_subdomain(name)
    assert claims.claimed(name) == (scope, address)


@given(scopes, addresses, scopes, addresses)
def test_two_claims_never_share_a_name(one: int, first: Address, other: int, second: Address) -> None:
    same = claims.endpoint_name(one, first) == claims.endpoint_name(other, second)
    assert same == ((one, first) == (other, second))


def test_names_as_people_see_them() -> None:
    assert claims.endpoint_name(4711, ip_address("10.0.1.12")) == "4711-10.0.1.12"
    assert claims.endpoint_name(4711, ip_address("fd00::1")) == "4711-fd00-0-0-0-0-0-0-1"
    assert claims.divider_name(4711, 0) == "vni-4711-d0"
    assert claims.bouncer_name("net1", 1) == "net1-b1"


@pytest.mark.parametrize(
    "name",
    ["web", "4711-", "4711-10.0.1", "4711-10.0.01.12", "04711-10.0.1.12", "4711-300.0.0.1", "1-fd00-0-1",
     "4711-fd00-0-0-0-0-0-0-01"],
)  # fmt: skip
def test_other_names_claim_nothing(name: str) -> None:
    assert claims.claimed(name) is None


def test_children_of_long_names_are_still_names_and_still_different() -> None:
    long, longer = "a" * 250 + ".b", "a" * 250 + ".c"
    one, other = claims.child_name(long, "b0"), claims.child_name(longer, "b0")
    assert one != other and not names.dns_subdomain(one) and one.endswith("-b0")
    assert claims.child_name("short", "b0") == "short-b0"


def test_an_object_is_offered_the_same_numbers_again() -> None:
    first = list(islice(claims.vni_candidates("uid-1"), 50))
    assert first == list(islice(claims.vni_candidates("uid-1"), 50))
    assert len(set(first)) == 50 and first != list(islice(claims.vni_candidates("uid-2"), 50))
    assert all(claims.DEFAULT_VNI < vni <= VNI_MAX for vni in first)


@given(addresses)
def test_hardware_addresses_are_local_and_of_one_machine(address: Address) -> None:
    mac = claims.mac_of(address)
    first = int(mac[:2], 16)
    assert len(mac) == 17 and first & 0b10 and not first & 0b1


def test_different_ipv4_addresses_have_different_hardware_addresses() -> None:
    assert claims.mac_of(IPv4Address("10.0.1.12")) == "0a:58:0a:00:01:0c"
    assert claims.mac_of(IPv6Address("fd00::1")) != claims.mac_of(IPv6Address("fd00::2"))
