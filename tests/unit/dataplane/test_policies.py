"""Compiled policies decide as the rules say, for any rules, peers and ports."""

from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network

from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.dataplane.address import Address, pack
from alcove.dataplane.maps import CLASS, PEER_KEY, RULE_KEY
from alcove.dataplane.model import PortRange, PrefixBlock, Protocol, TrafficProfile, TrafficRule
from alcove.dataplane.policies import CompiledPolicy, compile_profile, split_range


def longest(entries: dict[bytes, bytes], wanted: bytes) -> bytes | None:
    """The trie's answer: the value of the longest prefix that matches `wanted` (a key without its length)."""
    best: tuple[int, bytes | None] = (-1, None)
    number = int.from_bytes(wanted, "big")
    for key, value in entries.items():
        bits = int.from_bytes(key[:4], "little")
        shift = len(wanted) * 8 - bits
        if int.from_bytes(key[4:], "big") >> shift == number >> shift and bits > best[0]:
            best = (bits, value)
    return best[1]


def decides(compiled: CompiledPolicy, peer: Address, protocol: int, port: int) -> bool:
    """As bpf/lib/policy.h does."""
    key = PEER_KEY.pack(0, compiled.name, pack(peer))[4:]
    found = longest(compiled.peers, key)
    if found is None or CLASS.unpack(found)["named"] == 0:
        return False
    key = RULE_KEY.pack(0, CLASS.unpack(found)["named"], protocol, port.to_bytes(2, "big"))[4:]
    return longest(compiled.rules, key) is not None


def says(profile: TrafficProfile, peer: Address, protocol: int, port: int) -> bool:
    """The rules, read literally."""
    return any(_peer(rule, peer) and _port(rule, protocol, port) for rule in profile.rules)


def _peer(rule: TrafficRule, peer: Address) -> bool:
    if rule.peers is None:
        return True
    return any(peer in one.prefix and not any(peer in cut for cut in one.excepts) for one in rule.peers)


def _port(rule: TrafficRule, protocol: int, port: int) -> bool:
    if rule.ports is None:
        return True
    return any(one.protocol == protocol and one.low <= port <= one.high for one in rule.ports)


addresses = st.integers(0x0A000000, 0x0A00001F).map(IPv4Address)
prefixes = st.builds(
    lambda address, bits: IPv4Network((address, bits), strict=False), addresses, st.integers(24, 32)
)
blocks = st.builds(
    PrefixBlock, prefixes | st.just(IPv4Network("0.0.0.0/0")), st.lists(prefixes, max_size=2).map(tuple)
)
ports = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
ranges = st.builds(
    lambda kind, pair: PortRange(kind, *pair), st.sampled_from([Protocol.TCP, Protocol.UDP]), ports
)
rules = st.builds(
    TrafficRule,
    st.none() | st.lists(blocks, max_size=3).map(tuple),
    st.none() | st.lists(ranges, max_size=3).map(tuple),
)
profiles = st.lists(rules, max_size=4).map(lambda made: TrafficProfile(tuple(made)))


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(
    profiles,
    st.lists(st.tuples(addresses, st.sampled_from([1, 6, 17]), st.integers(0, 21)), min_size=5, max_size=20),
)
def test_compiled_and_literal_agree(
    profile: TrafficProfile, packets: list[tuple[IPv4Address, int, int]]
) -> None:
    compiled = compile_profile(profile)
    for peer, protocol, port in packets:
        assert decides(compiled, peer, protocol, port) == says(profile, peer, protocol, port)


def test_families_do_not_mix() -> None:
    compiled = compile_profile(TrafficProfile((TrafficRule((PrefixBlock(ip_network("0.0.0.0/0")),)),)))
    assert decides(compiled, ip_address("192.0.2.1"), 6, 80)
    assert not decides(compiled, ip_address("2001:db8::1"), 6, 80)
    compiled = compile_profile(TrafficProfile((TrafficRule((PrefixBlock(ip_network("::/0")),)),)))
    assert decides(compiled, ip_address("2001:db8::1"), 6, 80)
    assert not decides(compiled, ip_address("192.0.2.1"), 6, 80), (
        "IPv4 is mapped into IPv6, but is no part of it"
    )


def test_blocks_of_both_families_in_one_rule_keep_their_exceptions() -> None:
    six = PrefixBlock(ip_network("::/1"), (ip_network("2001:db8::/32"),))
    four = PrefixBlock(ip_network("0.0.0.0/0"), (ip_network("192.0.2.0/24"),))
    compiled = compile_profile(TrafficProfile((TrafficRule((six, four)),)))
    for text, works in (
        ("2001:db9::1", True),
        ("2001:db8::1", False),
        ("198.51.100.1", True),
        ("192.0.2.1", False),
        ("fd00::1", False),
    ):
        assert decides(compiled, ip_address(text), 6, 80) is works, text


def test_everybody_means_both_families() -> None:
    compiled = compile_profile(TrafficProfile((TrafficRule(),)))
    assert decides(compiled, ip_address("192.0.2.1"), 1, 0)
    assert decides(compiled, ip_address("2001:db8::1"), 58, 0)


def test_the_name_is_the_content() -> None:
    one = TrafficRule((PrefixBlock(ip_network("10.0.0.0/8")),), (PortRange(Protocol.TCP, 1, 2),))
    two = TrafficRule((PrefixBlock(ip_network("10.1.0.0/16")),), (PortRange(Protocol.TCP, 3, 4),))
    assert (
        compile_profile(TrafficProfile((one, two))).name == compile_profile(TrafficProfile((two, one))).name
    )
    assert compile_profile(TrafficProfile((one,))).name != compile_profile(TrafficProfile((two,))).name
    assert compile_profile(TrafficProfile()).name != 0


@given(st.integers(0, 65535), st.integers(0, 65535))
def test_ranges_are_split_exactly(one: int, other: int) -> None:
    low, high = sorted((one, other))
    pieces = [(value, 1 << (16 - bits)) for value, bits in split_range(low, high)]
    assert sum(size for _, size in pieces) == high - low + 1
    at = low
    for value, size in pieces:
        assert value == at
        assert value % size == 0
        at += size
    assert len(pieces) <= 30
