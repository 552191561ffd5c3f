"""Candidates for cluster IPs: a free address is found if there is one, the lower ones only when the others are used."""

import random
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.apiserver.admission.services.supply import PROBES_MAX, AddressRange


@given(st.integers(22, 32), st.randoms(use_true_random=False), st.data())
def test_a_free_address_is_found_if_there_is_one(
    prefix: int, chance: random.Random, data: st.DataObject
) -> None:
    cidr = ip_network(f"10.96.0.0/{prefix}")
    addresses = AddressRange.of(cidr)
    usable = list(addresses.offsets)
    taken = set(data.draw(st.lists(st.sampled_from(usable), unique=True))) if usable else set()
    found = [each for each in addresses.candidates(len(taken), chance) if each not in taken]
    assert bool(found) == (len(taken) < len(usable))
    assert all(0 < each < cidr.num_addresses - 1 for each in found)


def test_addresses_that_users_choose_are_left_until_the_others_are_used() -> None:
    addresses = AddressRange.of(ip_network("10.96.0.0/24"))
    drawn = list(addresses.candidates(1000, random.Random(1)))
    assert min(drawn[:PROBES_MAX]) > 16
    assert set(drawn) == set(range(1, 255))
    assert set(drawn[-16:]) == set(range(1, 17))


@pytest.mark.parametrize("cidr", ["fd96::/108", "fd00::/8"])
def test_a_huge_range_is_not_searched(cidr: str) -> None:
    assert len(list(AddressRange.of(ip_network(cidr)).candidates(5, random.Random(1)))) == PROBES_MAX + 6
