"""The pool against a model that checks every address, and how its cost grows."""

import time
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from alcove.api.addresses import Address, Network
from alcove.vpc import ranges
from alcove.vpc.ipam import RESERVATION_SECONDS_MAX, AddressIndex

NETWORKS = ["10.0.0.0/30", "10.0.0.0/28", "10.1.2.0/27", "fd00::/124"]


class PoolMachine(RuleBasedStateMachine):
    """Objects come and go, are heard of first or never, in any order."""

    @initialize(network=st.sampled_from(NETWORKS), reserved=st.sets(st.integers(0, 15), max_size=3))
    def start(self, network: str, reserved: set[int]) -> None:
        self.network: Network = ip_network(network)
        base = self.network.network_address
        taken_out = {base + offset for offset in reserved if offset < self.network.num_addresses}
        self.pool = AddressIndex(self.network, taken_out)
        self.usable: list[Address] = [
            address
            for address in (base + offset for offset in range(self.network.num_addresses))
            if ranges.is_usable(self.network, address) and address not in taken_out
        ]
        self.held: set[Address] = set()
        self.rumoured: dict[Address, float] = {}
        self.now = 0.0

    def _address(self, offset: int) -> Address:
        return self.network.network_address + offset % self.network.num_addresses

    def _age(self) -> None:
        self.rumoured = {
            address: since
            for address, since in self.rumoured.items()
            if since + RESERVATION_SECONDS_MAX > self.now
        }

    def _free(self) -> list[Address]:
        return [each for each in self.usable if each not in self.held and each not in self.rumoured]

    @rule()
    def lowest(self) -> None:
        self._age()
        expected = next(iter(self._free()), None)
        assert self.pool.lowest(self.now) == expected
        if expected is not None:
            self.rumoured[expected] = self.now

    @rule(offset=st.integers(0, 31))
    def choose(self, offset: int) -> None:
        address = self._address(offset)
        if address not in self.usable:
            return
        self._age()
        is_free = address in self._free()
        assert self.pool.reserve(address, self.now) is is_free
        if is_free:
            self.rumoured[address] = self.now

    @rule(offset=st.integers(0, 31))
    def withdraw(self, offset: int) -> None:
        self.pool.cancel_reservation(self._address(offset))
        self.rumoured.pop(self._address(offset), None)

    @rule(offset=st.integers(0, 31))
    def hold(self, offset: int) -> None:
        address = self._address(offset)
        self.pool.held(address)
        if address in self.usable:
            self.held.add(address)
            self.rumoured.pop(address, None)

    @rule(offset=st.integers(0, 31))
    def release(self, offset: int) -> None:
        self.pool.released(self._address(offset))
        self.held.discard(self._address(offset))

    @rule(seconds=st.sampled_from([1.0, 30.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "pool"):
            assert self.pool.used == len(self.held) + len(self.rumoured)
            assert self.pool.used + self.pool.free == len(self.usable)


PoolMachine.TestCase.settings = settings(
    max_examples=3 * settings().max_examples // 2, stateful_step_count=60, deadline=None
)
TestPool = PoolMachine.TestCase


def test_what_comes_back_is_given_first() -> None:
    pool = AddressIndex(ip_network("10.0.0.0/24"))
    given = [pool.lowest(0.0) for _ in range(10)]
    assert [str(address) for address in given[:3]] == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
    for address in given:
        assert address is not None
        pool.held(address)
    pool.released(ip_address("10.0.0.7"))
    pool.released(ip_address("10.0.0.4"))
    assert [str(pool.lowest(0.0)) for _ in range(3)] == ["10.0.0.4", "10.0.0.7", "10.0.0.12"]


def test_a_full_range_is_an_error_until_an_address_is_released() -> None:
    pool = AddressIndex(ip_network("10.0.0.0/29"))
    while address := pool.lowest(0.0):
        pool.held(address)
    assert pool.free == 0 and pool.used == 5
    pool.released(ip_address("10.0.0.3"))
    assert str(pool.lowest(0.0)) == "10.0.0.3" and pool.lowest(0.0) is None


def test_an_address_of_another_range_is_not_counted() -> None:
    pool = AddressIndex(ip_network("10.0.0.0/24"))
    for stray in ("10.0.0.0", "10.0.0.1", "10.0.0.255", "192.168.0.1", "fd00::2"):
        pool.held(ip_address(stray))
    assert pool.used == 0


@pytest.mark.parametrize("network", ["10.0.0.0/8", "fd00::/64"])
def test_the_cost_grows_neither_with_the_range_nor_with_its_fill(network: str) -> None:
    pool = AddressIndex(ip_network(network))
    seconds = []
    for _ in range(30):
        begin = time.thread_time()
        for _ in range(2_000):
            address = pool.lowest(0.0)
            assert address is not None
            pool.held(address)
        seconds.append(time.thread_time() - begin)
    # The least disturbed of several, at both ends: a busy machine must not decide.
    assert min(seconds[-8:]) < 3 * min(seconds[:8])
