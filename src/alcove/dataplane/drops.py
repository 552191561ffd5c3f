"""Counters of dropped packets by reason, and of the paths of the others."""

import ctypes
from collections.abc import Iterator
from enum import IntEnum

from msgspec import Struct

from alcove.dataplane.bpf import Map, library
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.maps import DROP_COUNT, INDEX, PathTaken


class DropReason(IntEnum):
    """The values of bpf/lib/reason.h, which documents each one."""

    NONE = 0
    UNKNOWN_PORT = 1
    NOT_IP = 2
    TRUNCATED = 3
    MALFORMED = 4
    BAD_LENGTH = 5
    IP_OPTIONS = 6
    SPOOFED_MAC = 7
    SPOOFED_ADDRESS = 8
    SPOOFED_NEIGHBOR = 9
    NEIGHBOR_IGNORED = 10
    MULTICAST = 11
    MARTIAN = 12
    BAD_ICMP = 13
    TINY_FRAGMENT = 14
    FRAGMENT_UNKNOWN = 15
    RATE_LIMIT = 16
    POLICY_EGRESS = 17
    POLICY_INGRESS = 18
    NO_BACKEND = 19
    NO_SOURCE_PORT = 20
    NO_ENDPOINT = 21
    NO_ROUTE = 22
    NO_NODE = 23
    UNDERLAY = 24
    FOREIGN_TUNNEL = 25
    RELAY_LIMIT = 26
    ENCAPSULATION = 27
    NO_MEMORY = 28
    REWRITE = 29
    NOTICE = 30


class DropCount(Struct, frozen=True):
    packets: int
    bytes: int


def cpus() -> int:
    return int(library().libbpf_num_possible_cpus())


def per_cpu(one: Map, index: int) -> Iterator[bytes]:
    """The value of each CPU. The kernel pads values to 8 bytes."""
    size = one.value_size + -one.value_size % 8
    buffer = ctypes.create_string_buffer(size * cpus())
    if library().bpf_map_lookup_elem(one.fd, INDEX.pack(index), buffer) < 0:
        raise KernelRefused(f"read {one.name}", ctypes.get_errno())
    for cpu in range(cpus()):
        yield buffer.raw[cpu * size : cpu * size + one.value_size]


def read_counts(drops: Map) -> dict[DropReason, DropCount]:
    """Drops since the instance was created, by reason; reasons without drops are omitted."""
    by_reason = {}
    for reason in DropReason:
        counts = [DROP_COUNT.unpack(raw) for raw in per_cpu(drops, reason)]
        packets = sum(count["packets"] for count in counts)
        if packets:
            by_reason[reason] = DropCount(packets, sum(count["bytes"] for count in counts))
    return by_reason


def read_paths(paths: Map) -> dict[PathTaken, int]:
    return {path: sum(int.from_bytes(raw, "little") for raw in per_cpu(paths, path)) for path in PathTaken}
