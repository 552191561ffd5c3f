"""The limit of policy rules of one pod."""

import time
from ipaddress import ip_network

import pytest

from alcove.agent.network.policy_evaluation import BLOCKS_MAX, STEPS_MAX, limited
from alcove.dataplane.model import (
    PortRange,
    PrefixBlock,
    Protocol,
    TrafficProfile,
    TrafficRule,
)
from alcove.dataplane.policies import compile_profile
from alcove.network.policy import TooManyRules


def profile(peers: int, ports: int) -> TrafficProfile:
    blocks = tuple(PrefixBlock(ip_network((n << 8, 24))) for n in range(peers))
    return TrafficProfile((TrafficRule(blocks, tuple(PortRange(Protocol.TCP, n, n) for n in range(ports))),))


def test_rules_beyond_the_bound_are_refused() -> None:
    fits = (profile(BLOCKS_MAX // 2, 1), profile(BLOCKS_MAX // 4, 2))
    assert limited(fits) is fits
    assert limited((None, TrafficProfile())) == (None, TrafficProfile())
    with pytest.raises(TooManyRules, match="exceed the maximum"):
        limited((profile(BLOCKS_MAX // 2, 1), profile(BLOCKS_MAX // 4 + 1, 2)))


def test_exceptions_count_and_so_does_the_time_that_rules_take() -> None:
    excepts = tuple(ip_network((n << 8, 24)) for n in range(BLOCKS_MAX))
    with pytest.raises(TooManyRules, match="blocks exceed"):
        limited((TrafficProfile((TrafficRule((PrefixBlock(ip_network("0.0.0.0/0"), excepts),)),)), None))
    one = tuple(PrefixBlock(ip_network((n << 8, 24)), (ip_network((n << 8, 25)),)) for n in range(500))
    with pytest.raises(TooManyRules, match=f"exceed the maximum of {STEPS_MAX}"):
        limited((None, TrafficProfile((TrafficRule(one),))))
    began = time.process_time()
    few = TrafficProfile((TrafficRule(one[:200]),))
    assert limited((few, None)) == (few, None)
    compile_profile(few)
    assert time.process_time() - began < 20
