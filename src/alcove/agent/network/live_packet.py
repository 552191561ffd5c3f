"""Sends one real packet as if a pod had sent it, and waits for what comes back.

It leaves the pod's own interface, through the same programs as all of its packets. It is marked by its source port, which is
above those that pods use for connections of their own, and by TCP's sequence number, which the reply has to acknowledge. The
pod's kernel knows nothing of the connection: it resets it when a server accepts it.
"""

import asyncio
import secrets
import struct
import time
from contextlib import closing

from alcove.agent.server.capture import CapturePlace, open_socket, readable
from alcove.api.node_api import LiveReply
from alcove.dataplane.dry_run import MadePacket, frame_of
from alcove.dataplane.model import Protocol

REPLY_SECONDS_MAX = 1.0
FRAMES_READ_MAX = 256
"""Frames to the marked port, and ICMP messages, that are looked at."""
FRAME_BYTES_MAX = 256
FIRST_PORT, LAST_PORT = 61_000, 65_535
_ETHERNET_BYTES = 14
_TYPES = {4: 0x0800, 6: 0x86DD}
_HEADER_BYTES = {4: 20, 6: 40}
_PROTOCOL_OFFSET = {4: 9, 6: 6}
_ICMP = {4: (1, 3), 6: (58, 1)}
"""The protocol, and its type of an unreachable destination, by IP version."""
_SYN, _RST, _ACK = 0x02, 0x04, 0x10
_LOAD_HALF, _LOAD_BYTE, _JUMP_EQUAL, _RETURN = 0x28, 0x30, 0x15, 0x06


async def send(place: CapturePlace, mac: str, packet: MadePacket) -> LiveReply:
    """Sends the packet, and waits for its reply. Raises ServiceUnavailable, OSError."""
    port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT + 1)
    sequence = secrets.randbits(32)
    version = packet.source.version
    with closing(open_socket(place, filter_of(version, packet.protocol, port))) as sock:
        began = time.monotonic()
        sock.send(frame_of(packet, mac, port, sequence))
        for _ in range(FRAMES_READ_MAX):
            left = began + REPLY_SECONDS_MAX - time.monotonic()
            if left <= 0 or not await readable(asyncio.get_running_loop(), sock, left):
                break
            frame = sock.recv(FRAME_BYTES_MAX)
            if reply := reply_of(frame, version, packet.protocol, port, sequence):
                return LiveReply(port, reply, round((time.monotonic() - began) * 1e3, 3))
    return LiveReply(port)


def filter_of(version: int, protocol: int, port: int) -> bytes:
    """A classic BPF program that accepts packets of the protocol to the port, and ICMP."""
    accept, refuse = 7, 8

    def jump(at: int, value: int, equal: int, other: int) -> tuple[int, int, int, int]:
        return _JUMP_EQUAL, equal - at - 1, other - at - 1, value

    program = (
        (_LOAD_HALF, 0, 0, 12),
        jump(1, _TYPES[version], 2, refuse),
        (_LOAD_BYTE, 0, 0, _ETHERNET_BYTES + _PROTOCOL_OFFSET[version]),
        jump(3, _ICMP[version][0], accept, 4),
        jump(4, protocol, 5, refuse),
        (_LOAD_HALF, 0, 0, _ETHERNET_BYTES + _HEADER_BYTES[version] + 2),
        jump(6, port, accept, refuse),
        (_RETURN, 0, 0, FRAME_BYTES_MAX),
        (_RETURN, 0, 0, 0),
    )
    return b"".join(struct.pack("=HBBI", *each) for each in program)


def reply_of(frame: bytes, version: int, protocol: int, port: int, sequence: int) -> str:
    """What a frame says to the packet that was sent from this port; empty if it is no reply to it."""
    header = frame[_ETHERNET_BYTES:]
    payload = header[_HEADER_BYTES[version] :]
    if len(payload) < 8:
        return ""
    if header[_PROTOCOL_OFFSET[version]] != protocol:
        kind, unreachable = _ICMP[version]
        inner = payload[8:]
        if header[_PROTOCOL_OFFSET[version]] != kind or payload[0] != unreachable:
            return ""
        sent = inner[_HEADER_BYTES[version] :][:2]
        return "unreachable" if sent == port.to_bytes(2, "big") else ""
    if int.from_bytes(payload[2:4], "big") != port:
        return ""
    if protocol == Protocol.UDP:
        return "answered"
    if len(payload) < 14 or int.from_bytes(payload[8:12], "big") != (sequence + 1) % 2**32:
        return ""
    flags = payload[13]
    return "refused" if flags & _RST else "accepted" if flags & _SYN and flags & _ACK else ""
