"""Dropped packets: counters by reason, and samples with network, flow and policy."""

import ctypes
import mmap
import os
from collections.abc import Iterator
from enum import IntEnum

from msgspec import Struct

from alcove.dataplane.address import Address, unpack
from alcove.dataplane.bpf import Map, library
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.maps import DROP_COUNT, DROP_SAMPLE, INDEX, PathTaken

SAMPLES_BYTES = 256 * 1024
_BUSY, _DISCARD = 1 << 31, 1 << 30
_HEADER_BYTES = 8


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


class DropSample(Struct, frozen=True):
    reason: DropReason
    vni: int
    source: Address
    target: Address
    source_port: int
    target_port: int
    protocol: int
    policy: int
    """The name of the profile that denied the packet (see `policies.compile_profile`); 0 if none did."""
    link: int
    length: int


def _cpus() -> int:
    return int(library().libbpf_num_possible_cpus())


def _per_cpu(one: Map, index: int) -> Iterator[bytes]:
    """The value of each CPU. The kernel pads values to 8 bytes."""
    size = one.value_size + -one.value_size % 8
    buffer = ctypes.create_string_buffer(size * _cpus())
    if library().bpf_map_lookup_elem(one.fd, INDEX.pack(index), buffer) < 0:
        raise KernelRefused(f"read {one.name}", ctypes.get_errno())
    for cpu in range(_cpus()):
        yield buffer.raw[cpu * size : cpu * size + one.value_size]


def read_counts(drops: Map) -> dict[DropReason, DropCount]:
    """Drops since the instance was created, by reason; reasons without drops are omitted."""
    by_reason = {}
    for reason in DropReason:
        counts = [DROP_COUNT.unpack(raw) for raw in _per_cpu(drops, reason)]
        packets = sum(count["packets"] for count in counts)
        if packets:
            by_reason[reason] = DropCount(packets, sum(count["bytes"] for count in counts))
    return by_reason


def read_paths(paths: Map) -> dict[PathTaken, int]:
    return {path: sum(int.from_bytes(raw, "little") for raw in _per_cpu(paths, path)) for path in PathTaken}


class DropSamples:
    """Reads the ring buffer of samples. Reading consumes them, so there must be one reader only."""

    def __init__(self, descriptor: int) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        self.consumer = mmap.mmap(descriptor, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        # The kernel maps the data twice in a row, so a record is contiguous even at the end of the ring.
        size = page + 2 * SAMPLES_BYTES
        self.producer = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        self.data_offset = page

    def read(self) -> list[DropSample]:
        """All available samples; never blocks."""
        at = int.from_bytes(self.consumer[:8], "little")
        end = int.from_bytes(self.producer[:8], "little")
        samples = []
        while at < end:
            start = self.data_offset + at % SAMPLES_BYTES
            header = int.from_bytes(self.producer[start : start + 4], "little")
            if header & _BUSY:
                break
            length = header & ~(_BUSY | _DISCARD)
            if not header & _DISCARD:
                start += _HEADER_BYTES
                samples.append(_sample(self.producer[start : start + DROP_SAMPLE.size]))
            at += (length + _HEADER_BYTES + 7) // 8 * 8
        self.consumer[:8] = at.to_bytes(8, "little")
        return samples

    def close(self) -> None:
        self.consumer.close()
        self.producer.close()


def _sample(raw: bytes) -> DropSample:
    fields = DROP_SAMPLE.unpack(raw)
    return DropSample(
        reason=DropReason(fields["reason"]),
        vni=fields["vni"],
        source=unpack(fields["source"]),
        target=unpack(fields["target"]),
        source_port=int.from_bytes(fields["sport"], "big"),
        target_port=int.from_bytes(fields["dport"], "big"),
        protocol=fields["proto"],
        policy=fields["policy"],
        link=fields["ifindex"],
        length=fields["length"],
    )
