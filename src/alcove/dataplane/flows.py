"""Flows and drops of one network, read from the tables that its packets fill.

The kernel's tables are the only record: bounded for each network, the oldest entries make room for new ones, and they
outlive the agent. Nothing is read until somebody asks.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from alcove.dataplane.address import Address, unpack
from alcove.dataplane.bpf import Map
from alcove.dataplane.drops import DropReason
from alcove.dataplane.maps import DROPPED, FLOW, TRACK, TUPLE, FlowFlag, FlowKind
from alcove.dataplane.openings import Openings

TICK_SECONDS = 2**30 / 1e9
"""The kernel's unit of time; see `now_tick` in bpf/lib/config.h."""
FULL_PART = 0.7
"""The kernel keeps some free entries for each CPU: a table from which it evicts is not filled to the last one."""
_KIND_OFFSET = TUPLE.offsets()["kind"]
_TICK_OFFSET = TRACK.offsets()["tick"]
_TRACK, _REVERSE = int(FlowKind.TRACK), int(FlowKind.REVERSE)
_TRACK_KIND = bytes([_TRACK])
_SWAPPED, _EXEMPT = int(FlowFlag.SWAPPED), int(FlowFlag.EXEMPT)
"""Plain numbers: enums take a third of the time of thousands of flows."""
_START_TICKS = 1 << 16
"""After so many ticks (19.5 hours) the start of a flow is ambiguous, and taken for a later one."""


class ServiceAddress(Struct, frozen=True):
    address: Address
    port: int


class ObservedFlow(Struct, frozen=True):
    """A connection that passed. `source` opened it; counters with `back` are of the replies."""

    source: Address
    target: Address
    source_port: int
    target_port: int
    protocol: int
    bytes: int
    bytes_back: int
    packets: int
    packets_back: int
    tcp_flags: int
    start: float
    """Epoch seconds, exact to TICK_SECONDS; so is `end`, when the last packet was seen."""
    end: float
    service: ServiceAddress | None = None
    """What the opener had connected to, if this node translated it."""
    is_exempt: bool = False
    """Opened by the network's gateway, to which no policy applies."""


class ObservedDrop(Struct, frozen=True):
    """Packets of one flow that were dropped for one reason, whatever port they came from."""

    reason: DropReason
    source: Address | None
    """None, as `target`, if the packet was dropped before it was parsed."""
    target: Address | None
    target_port: int
    protocol: int
    bytes: int
    packets: int
    start: float
    end: float
    policy: int = 0
    """The name of the profile that denied the packets (see `policies.compile_profile`); 0 if none did."""


class TickClock(Struct, frozen=True):
    """Converts the kernel's ticks to epoch seconds."""

    now: float
    tick: int

    @classmethod
    def current(cls) -> "TickClock":
        return cls(time.time(), time.clock_gettime_ns(time.CLOCK_MONOTONIC) >> 30)

    def at(self, tick: int) -> float:
        return self.now - max(0, self.tick - tick) * TICK_SECONDS

    def start(self, tick: int, low: int) -> float:
        """When a flow was opened whose last packet was at `tick`; `low` is the lower half of the opening's tick."""
        return self.at(tick - (tick - low) % _START_TICKS)


class NetworkTraffic:
    """The open tables of a network."""

    def __init__(self, flows: Map, drops: Map) -> None:
        self._flows = flows
        self._drops = drops
        self.entries = 0
        """Entries in the table of flows when it was last read."""

    def flows(self, since: float = 0.0) -> list[ObservedFlow]:
        """Those that had a packet since then (epoch seconds); others are not decoded."""
        entries = self._flows.items()
        self.entries = len(entries)
        return list(decode_flows(entries, TickClock.current(), since))

    def opened(self, openings: Openings) -> list[ObservedFlow]:
        """These connections, with the counters of those that are still in the table."""
        clock, find = TickClock.current(), self._flows.get
        flows = []
        for raw, tick in zip(openings["key"].tolist(), openings["tick"].tolist(), strict=True):
            key = raw[:_KIND_OFFSET] + _TRACK_KIND + raw[_KIND_OFFSET + 1 :]
            entry = find(key) or TRACK.pack(0, 0, 0, tick, raw[_KIND_OFFSET], 0, tick % _START_TICKS, 0, 0, 0)
            flows.append(decode_flow(key, entry, clock, find))
        return flows

    def drops(self) -> list[ObservedDrop]:
        return list(decode_drops(self._drops.items(), TickClock.current()))

    def is_full(self) -> bool:
        """Whether older flows have had to make room, as far as the number of entries tells."""
        return self.entries >= FULL_PART * self._flows.capacity()

    def close(self) -> None:
        self._flows.close()
        self._drops.close()

    def __del__(self) -> None:
        # A reader that is cancelled while the tables are being opened never gets them.
        self.close()


def decode_flows(
    entries: Mapping[bytes, bytes], clock: TickClock, since: float = 0.0
) -> Iterator[ObservedFlow]:
    oldest = clock.tick - int((clock.now - since) / TICK_SECONDS) - 1
    for key, raw in entries.items():
        if key[_KIND_OFFSET] != _TRACK or _tick(raw) < oldest:
            continue
        yield decode_flow(key, raw, clock, entries.get)


def decode_flow(
    key: bytes, raw: bytes, clock: TickClock, find: Callable[[bytes], bytes | None]
) -> ObservedFlow:
    """The flow of an entry of the kind TRACK. `find` looks up other entries of the table."""
    # In the order of the layouts, and not by name: this is half of the time that flows take.
    sent, back, packets, tick, flags, tcp_flags, start, packets_back, _, _ = TRACK.codec.unpack(raw)
    source, target, sport, dport, protocol, _ = TUPLE.codec.unpack(key)
    if flags & _SWAPPED:
        source, target, sport, dport = target, source, dport, sport
    return ObservedFlow(
        source=unpack(source),
        target=unpack(target),
        source_port=_port(sport),
        target_port=_port(dport),
        protocol=protocol,
        bytes=sent,
        bytes_back=back,
        packets=packets,
        packets_back=packets_back,
        tcp_flags=tcp_flags,
        start=clock.start(tick, start),
        end=clock.at(tick),
        service=_service(find(TUPLE.pack(target, source, dport, sport, protocol, _REVERSE)), target, dport),
        is_exempt=bool(flags & _EXEMPT),
    )


def _service(raw: bytes | None, target: bytes, dport: bytes) -> ServiceAddress | None:
    """The service of a translated flow, by the entry that translates its replies back."""
    if raw is None:
        return None
    flow = FLOW.unpack(raw)
    # A direct connection to a backend has such an entry too, to tell it from those to the service.
    if flow["peer"] == target and flow["peer_port"] == dport:
        return None
    return ServiceAddress(unpack(flow["peer"]), _port(flow["peer_port"]))


def decode_drops(entries: Mapping[bytes, bytes], clock: TickClock) -> Iterator[ObservedDrop]:
    for key, raw in entries.items():
        dropped, ends = DROPPED.unpack(raw), TUPLE.unpack(key)
        yield ObservedDrop(
            reason=DropReason(ends["kind"]),
            source=_address(ends["source"]),
            target=_address(ends["target"]),
            target_port=_port(ends["dport"]),
            protocol=ends["proto"],
            bytes=dropped["bytes"],
            packets=dropped["packets"],
            start=clock.at(dropped["start"]),
            end=clock.at(dropped["tick"]),
            policy=dropped["policy"],
        )


def _tick(raw: bytes) -> int:
    return int.from_bytes(raw[_TICK_OFFSET : _TICK_OFFSET + 4], "little")


def _address(raw: bytes) -> Address | None:
    return unpack(raw) if any(raw) else None


def _port(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def tcp_flag_names(flags: int) -> str:
    """The flags in the notation of tcpdump, such as `SFPA`."""
    letters: Iterable[tuple[int, str]] = ((0x02, "S"), (0x01, "F"), (0x04, "R"), (0x08, "P"), (0x10, "A"))
    return "".join(letter for bit, letter in letters if flags & bit)
