"""Compiles profiles to entries of LPM tries. Pure: no I/O. See `bpf/lib/policy.h` for the lookup.

Profiles and classes are named by a hash of their content, so the meaning of an entry never changes: a new
policy has new entries, and the single entry of the port selects the policy in force.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network

from msgspec import Struct

from alcove.api.weighed_cache import WeighedCache
from alcove.dataplane.address import pack_prefix
from alcove.dataplane.maps import CLASS, PEER_KEY, RULE_KEY, WORD
from alcove.dataplane.model import PortRange, TrafficProfile, TrafficRule

ALL_IPV4 = pack_prefix(IPv4Network("0.0.0.0/0"))
ALL_PEERS = (ALL_IPV4, pack_prefix(IPv6Network("::/0")))
KEPT_ENTRIES_MAX = 1 << 21
"""Peers and rules in compiled profiles that are kept for the next pass: more than fit into the maps."""
EVERYBODY = ""
"""The owner of what is kept: the data plane knows no tenants. What is in use is kept, since it fits."""
DENIED = 0
ALLOWED = WORD.pack(1)
_PROFILE_BITS = 64
_CLASS_BITS = 64
_PROTOCOL_BITS = _CLASS_BITS + 16

Bits = tuple[int, bytes]
"""A prefix: its length in the 16-byte form, and the address in that form."""
Ports = frozenset[PortRange] | None
"""The union of the ports of several rules; None means all."""


class CompiledPolicy(Struct, frozen=True):
    name: int
    """The value in a port's entry; never 0."""
    peers: dict[bytes, bytes]
    rules: dict[bytes, bytes]


_kept: WeighedCache[TrafficProfile, CompiledPolicy] = WeighedCache(KEPT_ENTRIES_MAX)


def name_of(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little") or 1


def compile_profile(profile: TrafficProfile, owner: str = EVERYBODY) -> CompiledPolicy:
    """`owner`: whose result it is; the owner with most loses its own first."""
    compiled = _kept.get(profile)
    if compiled is None:
        compiled = _compiled(profile)
        _kept.put(owner, profile, compiled, 1 + len(compiled.peers) + len(compiled.rules))
    return compiled


def _compiled(profile: TrafficProfile) -> CompiledPolicy:
    peers = _peers(profile.rules)
    classes = {ports: _class(ports) for ports in set(peers.values())}
    content = repr(sorted((bits, raw, classes[ports][0]) for (bits, raw), ports in peers.items()))
    name = name_of(content.encode())
    peer_entries = {
        PEER_KEY.pack(_PROFILE_BITS + bits, name, raw): CLASS.pack(classes[ports][0])
        for (bits, raw), ports in peers.items()
    }
    rule_entries: dict[bytes, bytes] = {}
    for _name, entries in classes.values():
        rule_entries.update(dict.fromkeys(entries, ALLOWED))
    return CompiledPolicy(name, peer_entries, rule_entries)


def _peers(rules: tuple[TrafficRule, ...]) -> dict[Bits, Ports]:
    """The allowed ports of each prefix. The longest match wins, so each prefix includes the rules of shorter
    ones."""
    rules_by_prefix: dict[Bits, list[int]] = defaultdict(list)
    excepting_rules: list[tuple[int, Bits, list[Bits]]] = []
    for index, rule in enumerate(rules):
        if rule.peers is None:
            for all_peers in ALL_PEERS:
                rules_by_prefix[all_peers].append(index)
            continue
        for block in rule.peers:
            bits = pack_prefix(block.prefix)
            excepts = [pack_prefix(prefix) for prefix in block.excepts]
            # IPv4 addresses are mapped into IPv6, so `::/0` would have them all.
            if block.prefix.version == 6 and _covers(bits, ALL_IPV4):
                excepts.append(ALL_IPV4)
            if excepts:
                excepting_rules.append((index, bits, excepts))
            else:
                rules_by_prefix[bits].append(index)
    prefixes = {
        *rules_by_prefix,
        *(bits for _, bits, _ in excepting_rules),
        *(bits for _, _, more in excepting_rules for bits in more),
    }
    lengths = sorted({bits for bits, _ in rules_by_prefix})
    return {prefix: _allowed(prefix, rules, rules_by_prefix, lengths, excepting_rules) for prefix in prefixes}


def _allowed(
    prefix: Bits,
    rules: tuple[TrafficRule, ...],
    rules_by_prefix: dict[Bits, list[int]],
    lengths: list[int],
    excepting_rules: list[tuple[int, Bits, list[Bits]]],
) -> Ports:
    matching: set[int] = set()
    for length in lengths:
        if length <= prefix[0]:
            matching.update(rules_by_prefix.get((length, _masked(prefix[1], length)), ()))
    for index, block, excepts in excepting_rules:
        if _covers(block, prefix) and not any(_covers(excepted, prefix) for excepted in excepts):
            matching.add(index)
    return _union(rules[index] for index in matching)


def _union(rules: Iterable[TrafficRule]) -> Ports:
    ranges: set[PortRange] = set()
    for rule in rules:
        if rule.ports is None:
            return None
        ranges.update(rule.ports)
    return frozenset(ranges)


def _masked(raw: bytes, length: int) -> bytes:
    masked = int.from_bytes(raw, "big") >> (128 - length) << (128 - length)
    return masked.to_bytes(16, "big")


def _covers(outer: Bits, inner: Bits) -> bool:
    return outer[0] <= inner[0] and _masked(inner[1], outer[0]) == outer[1]


def _class(ports: Ports) -> tuple[int, list[bytes]]:
    """The name of a class and the keys of its entries."""
    if ports is not None and not ports:
        return DENIED, []
    name = name_of(b"*" if ports is None else repr(sorted(ports)).encode())
    if ports is None:
        return name, [RULE_KEY.pack(_CLASS_BITS, name, 0, b"\0\0")]
    return name, [key for one in ports for key in _range(name, one)]


def _range(name: int, one: PortRange) -> Iterable[bytes]:
    for port, bits in split_range(one.low, one.high):
        yield RULE_KEY.pack(_PROTOCOL_BITS + bits, name, one.protocol, port.to_bytes(2, "big"))


def split_range(low: int, high: int) -> Iterable[tuple[int, int]]:
    """The fewest prefixes (value, length) of 16-bit numbers that cover exactly low..high."""
    while low <= high:
        size = low & -low or 1 << 16
        while low + size - 1 > high:
            size >>= 1
        yield low, 16 - (size.bit_length() - 1)
        low += size
