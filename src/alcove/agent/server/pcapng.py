"""Packets in the format of Wireshark and tcpdump: pcapng blocks of one interface, with times in nanoseconds."""

from __future__ import annotations

import struct

ETHERNET = 1
_SECTION, _INTERFACE, _PACKET, _STATISTICS = 0x0A0D0D0A, 1, 6, 5
_BYTE_ORDER = 0x1A2B3C4D
_LENGTH_UNKNOWN = 0xFFFFFFFFFFFFFFFF
_NAME, _RESOLUTION, _FLAGS, _RECEIVED, _DROPPED = 2, 9, 2, 4, 5
_NANOSECONDS = bytes((9,))
_INBOUND, _OUTBOUND = 1, 2


def head(interface: str, packet_bytes_max: int) -> bytes:
    """The beginning of a file."""
    section = struct.pack("<IHHQ", _BYTE_ORDER, 1, 0, _LENGTH_UNKNOWN)
    options = _option(_NAME, interface.encode()) + _option(_RESOLUTION, _NANOSECONDS) + _option(0, b"")
    description = struct.pack("<HHI", ETHERNET, 0, packet_bytes_max) + options
    return _block(_SECTION, section) + _block(_INTERFACE, description)


def packet(data: bytes, length: int, at_ns: int, *, is_sent: bool) -> bytes:
    """`length` is that of the whole packet, of which `data` is the beginning."""
    fixed = struct.pack("<IIIII", 0, at_ns >> 32, at_ns & 0xFFFFFFFF, len(data), length)
    flags = _option(_FLAGS, struct.pack("<I", _OUTBOUND if is_sent else _INBOUND)) + _option(0, b"")
    return _block(_PACKET, fixed + _padded(data) + flags)


def statistics(at_ns: int, received: int, dropped: int) -> bytes:
    """The end: packets that passed the filter, and those of them that were not written since there were too many."""
    counts = _option(_RECEIVED, struct.pack("<Q", received)) + _option(_DROPPED, struct.pack("<Q", dropped))
    return _block(
        _STATISTICS, struct.pack("<III", 0, at_ns >> 32, at_ns & 0xFFFFFFFF) + counts + _option(0, b"")
    )


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
