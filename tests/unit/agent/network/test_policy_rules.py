"""The limit of policy rules of one pod."""

from ipaddress import ip_network

import pytest

from alcove.agent.network.policy_rules import BLOCKS_MAX, limited
from alcove.dataplane.model import (
    PortRange,
    PrefixBlock,
    Protocol,
    TrafficProfile,
    TrafficRule,
)


def profile(peers: int, ports: int) -> TrafficProfile:
    blocks = tuple(PrefixBlock(ip_network((n << 8, 24))) for n in range(peers))
    return TrafficProfile((TrafficRule(blocks, tuple(PortRange(Protocol.TCP, n, n) for n in range(ports))),))


def test_rules_beyond_the_bound_are_refused() -> None:
    fits = (profile(BLOCKS_MAX // 2, 1), profile(BLOCKS_MAX // 4, 2))
    assert limited(fits) is fits
    assert limited((None, TrafficProfile())) == (None, TrafficProfile())
    with pytest.raises(ValueError, match="exceed the maximum"):
        limited((profile(BLOCKS_MAX // 2, 1), profile(BLOCKS_MAX // 4 + 1, 2)))
