"""Runs the programs on a made packet, at the pod's veth or where it arrives by the tunnel: what the kernel does with it. Nothing
is sent.

The programs write what they learn into the network's tables. What a made packet has left there is removed again: its
source port is one that pods do not use for connections of their own.
"""

import struct
from collections.abc import Mapping
from contextlib import closing
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

from alcove.dataplane import bpf
from alcove.dataplane.address import Address, pack, pack_mac
from alcove.dataplane.bpf import Map
from alcove.dataplane.drops import DropReason
from alcove.dataplane.flows import ObservedDrop, TickClock, decode_drops
from alcove.dataplane.maps import FLOW, TUPLE, FlowFlag, FlowKind
from alcove.dataplane.model import Protocol

PROBE_PORT = 1
REDIRECTED = 7
"""TC_ACT_REDIRECT: the packet goes to another link."""
_ETHERNET_BYTES, _OUTER_BYTES = 14, 50
_ROUTER_MAC = bytes.fromhex("020000000001")
_TYPES = {4: 0x0800, 6: 0x86DD}
_SYN = 0x02
_TUNNEL_SOURCE_PORT, _HAS_VNI = 49152, 0x08000000
_HAIRPIN: dict[int, Address] = {4: IPv4Address("169.254.254.254"), 6: IPv6Address("fd00:a1c0:e::1")}
"""The source address that a pod sees when it is its own backend; see bpf/lib/address.h."""


class MadePacket(Struct, frozen=True):
    """The first packet of a connection."""

    source: Address
    target: Address
    port: int
    protocol: Protocol


class KernelVerdict(Struct, frozen=True):
    is_forwarded: bool
    target: Address
    """Where the packet goes, after translation; as sent if it was dropped."""
    port: int
    source: Address
    """Where it comes from, after translation."""
    node: IPv4Address | None = None
    """The other node that it is sent to; None if it stays on this one."""
    drop: ObservedDrop | None = None
    """Why it was dropped; None if that is not known."""


def frame_of(packet: MadePacket, mac: str, source_port: int = PROBE_PORT, sequence: int = 1) -> bytes:
    """The packet as the pod with this MAC sends it; `sequence` is the number of a TCP packet."""
    version = packet.source.version
    ports = struct.pack("!HH", source_port, packet.port)
    match packet.protocol:
        case Protocol.TCP:
            payload = ports + struct.pack("!IIBBHHH", sequence, 0, 5 << 4, _SYN, 65535, 0, 0)
            payload = payload[:16] + _transport_checksum(packet, payload) + payload[18:]
        case Protocol.UDP:
            payload = ports + struct.pack("!HH", 8, 0)
            payload = payload[:6] + _transport_checksum(packet, payload)
        case _:
            payload = ports + bytes(8)
    if version == 4:
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, packet.protocol, 0)
        header += packet.source.packed + packet.target.packed
        header = header[:10] + _checksum(header).to_bytes(2, "big") + header[12:]
    else:
        header = struct.pack("!IHBB", 6 << 28, len(payload), packet.protocol, 64)
        header += packet.source.packed + packet.target.packed
    return _ROUTER_MAC + pack_mac(mac) + _TYPES[version].to_bytes(2, "big") + header + payload


def tunnelled(
    packet: MadePacket, vni: int, nodes: tuple[IPv4Address, IPv4Address], tunnel_port: int
) -> bytes:
    """The packet as the second of the nodes receives it from the first; see bpf/lib/tunnel.h."""
    inner = frame_of(packet, _ROUTER_MAC.hex(":"))
    length = _OUTER_BYTES - _ETHERNET_BYTES + len(inner)
    header = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0x4000, 64, Protocol.UDP, 0)
    header += nodes[0].packed + nodes[1].packed
    header = header[:10] + _checksum(header).to_bytes(2, "big") + header[12:]
    udp = struct.pack("!HHHH", _TUNNEL_SOURCE_PORT, tunnel_port, length - len(header), 0)
    vxlan = struct.pack("!II", _HAS_VNI, vni << 8)
    return _ROUTER_MAC + _ROUTER_MAC + _TYPES[4].to_bytes(2, "big") + header + udp + vxlan + inner


def _transport_checksum(packet: MadePacket, payload: bytes) -> bytes:
    ends = packet.source.packed + packet.target.packed
    # Of a checksum, zero and all ones are the same; in UDP, zero means that there is none.
    found = _checksum(ends + struct.pack("!HH", packet.protocol, len(payload)) + payload) or 0xFFFF
    return found.to_bytes(2, "big")


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def dry_run(
    program: int, link: int, frame: bytes, packet: MadePacket, tunnel_port: int, flows: Map, drops: Map
) -> KernelVerdict:
    """Runs `program` as if the packet had come by the link, in this frame. `flows` and `drops` are the tables of the
    packet's network. Must be called in the link's namespace. Raises KernelRefused."""
    with closing(flows), closing(drops):
        drops_before = drops.items()
        affinity = _key(packet, sport=bytes(2), kind=FlowKind.AFFINITY)
        had_affinity = flows.get(affinity) is not None
        try:
            run = bpf.test_run(program, frame, link)
            if run.result == REDIRECTED:
                return _parse(run.frame, tunnel_port)
            dropped = _changed(drops_before, drops.items(), packet)
            return KernelVerdict(False, packet.target, packet.port, packet.source, drop=dropped)
        finally:
            for key in (*_left_by(flows, packet), *(() if had_affinity else (affinity,))):
                flows.delete(key)
            _restore(drops, drops_before, packet)


def _changed(
    before: Mapping[bytes, bytes], after: Mapping[bytes, bytes], packet: MadePacket
) -> ObservedDrop | None:
    """The entry of the drop that the packet has caused."""
    new = {key: raw for key, raw in after.items() if before.get(key) != raw}
    found = [
        each
        for each in decode_drops(new, TickClock.current())
        if (each.source, each.protocol) == (packet.source, packet.protocol)
        and each.reason is not DropReason.NONE
    ]
    # Of several, by packets that the pod sends at the same time, the one to this destination.
    found.sort(key=lambda each: (each.target, each.target_port) != (packet.target, packet.port))
    return found[0] if found else None


def _key(packet: MadePacket, *, sport: bytes, kind: FlowKind) -> bytes:
    port = packet.port.to_bytes(2, "big")
    return TUPLE.pack(pack(packet.source), pack(packet.target), sport, port, packet.protocol, kind)


def _left_by(flows: Map, packet: MadePacket) -> list[bytes]:
    """The keys of the entries that the packet may have left: the connection, and its translation if it has one."""
    probe = PROBE_PORT.to_bytes(2, "big")
    forward = _key(packet, sport=probe, kind=FlowKind.FORWARD)
    source, target, port = pack(packet.source), pack(packet.target), packet.port.to_bytes(2, "big")
    if (raw := flows.get(forward)) is not None:
        flow = FLOW.unpack(raw)
        target, port, probe = flow["peer"], flow["peer_port"], flow["own_port"]
        if flow["flags"] & FlowFlag.HAIRPIN:
            source = pack(_HAIRPIN[packet.source.version])
    there, back = (source, target, probe, port), (target, source, port, probe)
    connections = [TUPLE.pack(*ends, packet.protocol, FlowKind.TRACK) for ends in (there, back)]
    return [forward, TUPLE.pack(*back, packet.protocol, FlowKind.REVERSE), *connections]


def _restore(drops: Map, before: Mapping[bytes, bytes], packet: MadePacket) -> None:
    """Takes the packet out of its pod's drops again."""
    own = pack(packet.source)
    for key, raw in drops.items().items():
        if TUPLE.unpack(key)["source"] == own and before.get(key) != raw:
            if key in before:
                drops.put(key, before[key])
            else:
                drops.delete(key)


def _parse(frame: bytes, tunnel_port: int) -> KernelVerdict:
    """Where a frame goes that the program has let pass."""
    start, node = _ETHERNET_BYTES, None
    outer = frame[start : start + 28]
    is_udp = len(outer) == 28 and outer[0] >> 4 == 4 and outer[9] == Protocol.UDP
    # A made packet to the tunnel's port is not a tunnel packet.
    ports = int.from_bytes(outer[20:22], "big"), int.from_bytes(outer[22:24], "big")
    if is_udp and ports[1] == tunnel_port and ports[0] != PROBE_PORT:
        node = IPv4Address(outer[16:20])
        start += _OUTER_BYTES
    packet = frame[start:]
    source: Address
    target: Address
    if packet[0] >> 4 == 4:
        source, target, payload = IPv4Address(packet[12:16]), IPv4Address(packet[16:20]), packet[20:]
    else:
        source, target, payload = IPv6Address(packet[8:24]), IPv6Address(packet[24:40]), packet[40:]
    return KernelVerdict(True, target, int.from_bytes(payload[2:4], "big"), source, node)
