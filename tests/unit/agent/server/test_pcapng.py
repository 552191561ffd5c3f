"""Blocks of pcapng: whole, padded, and with both lengths."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.server import pcapng


@given(st.binary(max_size=300), st.integers(0, 2**63), st.booleans())
def test_a_packet_is_one_whole_block(data: bytes, at_ns: int, is_sent: bool) -> None:
    block = pcapng.packet(data, len(data) + 7, at_ns, is_sent=is_sent)
    kind, length = struct.unpack_from("<II", block)
    assert (kind, length, len(block) % 4) == (6, len(block), 0)
    assert struct.unpack_from("<I", block, length - 4) == (length,)
    interface, high, low, captured, whole = struct.unpack_from("<IIIII", block, 8)
    assert (interface, high << 32 | low, captured, whole) == (0, at_ns, len(data), len(data) + 7)
    assert block[28 : 28 + len(data)] == data
    assert struct.pack("<HHI", 2, 4, 2 if is_sent else 1) in block[28 + len(data) :]
