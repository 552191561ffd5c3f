"""Times and ends of flows, from the kernel's entries."""

from ipaddress import ip_address

from alcove.dataplane.address import pack
from alcove.dataplane.drops import DropReason
from alcove.dataplane.flows import (
    TICK_SECONDS,
    ServiceAddress,
    TickClock,
    decode_drops,
    decode_flows,
    tcp_flag_names,
)
from alcove.dataplane.maps import DROPPED, FLOW, TRACK, TUPLE, FlowFlag, FlowKind

CLIENT, SERVER, VIP = (ip_address(text) for text in ("10.0.0.9", "10.0.0.5", "172.20.0.1"))
CLOCK = TickClock(now=1_000_000.0, tick=200_000)


def key(
    kind: int, source: object = SERVER, target: object = CLIENT, ports: tuple[int, int] = (80, 999)
) -> bytes:
    sport, dport = (port.to_bytes(2, "big") for port in ports)
    return TUPLE.pack(pack(source), pack(target), sport, dport, 6, kind)  # type: ignore[arg-type]


def track(flags: int, start: int, tick: int) -> bytes:
    return TRACK.pack(100, 200, 1, tick, flags, 0x12, start, 2, 0, 0)


def test_the_opener_is_the_source_whichever_end_is_lower() -> None:
    entries = {key(FlowKind.TRACK): track(FlowFlag.SWAPPED, 0, 200_000)}
    [flow] = decode_flows(entries, CLOCK)
    assert (flow.source, flow.source_port, flow.target, flow.target_port) == (CLIENT, 999, SERVER, 80)
    assert (flow.bytes, flow.bytes_back, flow.packets, flow.packets_back) == (100, 200, 1, 2)
    assert tcp_flag_names(flow.tcp_flags) == "SA"
    [plain] = decode_flows({key(FlowKind.TRACK): track(0, 0, 200_000)}, CLOCK)
    assert plain.source == SERVER


def test_a_start_is_found_from_its_lower_half_across_an_overflow() -> None:
    tick = 200_000
    for age in (0, 1, 5_000, 65_535):
        entries = {key(FlowKind.TRACK): track(0, (tick - 10 - age) % 65_536, tick - 10)}
        [flow] = decode_flows(entries, CLOCK)
        assert flow.end == CLOCK.now - 10 * TICK_SECONDS
        assert abs(flow.end - flow.start - age * TICK_SECONDS) < 1e-6


def test_flows_without_a_packet_since_then_are_left_out() -> None:
    entries = {
        key(FlowKind.TRACK, ports=(80, port)): track(0, 0, 200_000 - age)
        for port, age in ((1, 0), (2, 100), (3, 900))
    }
    since = CLOCK.now - 200 * TICK_SECONDS
    assert {flow.target_port for flow in decode_flows(entries, CLOCK, since)} == {1, 2}


def test_a_service_is_what_the_replies_are_translated_to() -> None:
    port = (8080).to_bytes(2, "big")
    back = key(FlowKind.REVERSE, SERVER, CLIENT, (80, 999))
    entries = {
        key(FlowKind.TRACK): track(FlowFlag.SWAPPED, 0, 1),
        back: FLOW.pack(pack(VIP), port, (999).to_bytes(2, "big"), 0, 0, bytes(4), 0, 0),
    }
    [flow] = decode_flows(entries, CLOCK)
    assert flow.service == ServiceAddress(VIP, 8080)
    entries[back] = FLOW.pack(pack(SERVER), (80).to_bytes(2, "big"), bytes(2), 0, 0, bytes(4), 0, 0)
    [direct] = decode_flows(entries, CLOCK)
    assert direct.service is None


def test_a_drop_before_the_packet_was_parsed_has_no_ends() -> None:
    entries = {bytes(37) + bytes([DropReason.NOT_IP]) + bytes(2): DROPPED.pack(3, 180, 0, 199_990, 200_000)}
    [drop] = decode_drops(entries, CLOCK)
    assert (drop.reason, drop.source, drop.target) == (DropReason.NOT_IP, None, None)
    assert (drop.packets, drop.bytes, drop.end) == (3, 180, CLOCK.now)
    assert abs(drop.end - drop.start - 10 * TICK_SECONDS) < 1e-6
