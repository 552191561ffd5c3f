"""Which frames are replies to a marked packet."""

import struct
from ipaddress import ip_address

import pytest

from alcove.agent.network.live_packet import reply_of
from alcove.dataplane.dry_run import MadePacket, frame_of
from alcove.dataplane.model import Protocol
from alcove.testing import packets
from alcove.testing.packets import ACK, ROUTER_MAC, RST, SYN, ethernet, ipv4, tcp, udp

POD, SERVER = "10.0.0.5", "10.0.0.9"
PORT, SEQUENCE = 62_000, 2**32 - 1


def arrives(protocol: int, payload: bytes) -> bytes:
    return ethernet(ROUTER_MAC, ROUTER_MAC, 0x0800, ipv4(SERVER, POD, protocol, payload))


def segment(flags: int, port: int = PORT, acknowledged: int = 0) -> bytes:
    made = bytearray(tcp(SERVER, POD, 80, port, flags))
    made[8:12] = struct.pack("!I", acknowledged)
    return arrives(6, bytes(made))


@pytest.mark.parametrize(
    ("frame", "reply"),
    [
        (segment(SYN | ACK), "accepted"),
        (segment(RST | ACK), "refused"),
        (segment(SYN | ACK, port=PORT + 1), ""),
        (segment(SYN | ACK, acknowledged=7), ""),
        (segment(ACK), ""),
        (arrives(17, udp(SERVER, POD, 53, PORT, b"")), ""),
        (b"", ""),
        (segment(SYN | ACK)[:40], ""),
    ],
)
def test_a_tcp_reply_acknowledges_the_marked_packet(frame: bytes, reply: str) -> None:
    assert reply_of(frame, 4, Protocol.TCP, PORT, SEQUENCE) == reply


def test_a_udp_reply_comes_to_the_marked_port() -> None:
    answer = arrives(17, udp(SERVER, POD, 53, PORT, b"hi"))
    assert reply_of(answer, 4, Protocol.UDP, PORT, SEQUENCE) == "answered"
    assert reply_of(answer, 4, Protocol.UDP, PORT + 1, SEQUENCE) == ""


def test_an_error_is_a_reply_if_it_is_about_the_marked_packet() -> None:
    sent = frame_of(MadePacket(ip_address(POD), ip_address(SERVER), 53, Protocol.UDP), ROUTER_MAC, PORT)
    for port, reply in ((PORT, "unreachable"), (PORT + 1, "")):
        error = arrives(1, bytes([3, 3, 0, 0, 0, 0, 0, 0]) + sent[14:42])
        assert reply_of(error, 4, Protocol.UDP, port, SEQUENCE) == reply
    assert reply_of(arrives(1, bytes([0, 0, 0, 0, 0, 0, 0, 0]) + sent[14:42]), 4, 17, PORT, SEQUENCE) == ""


@pytest.mark.parametrize("protocol", [Protocol.TCP, Protocol.UDP])
@pytest.mark.parametrize("ends", [(POD, SERVER), ("fd00::5", "fd00::9")])
def test_a_made_packet_has_right_checksums(protocol: Protocol, ends: tuple[str, str]) -> None:
    source, target = map(ip_address, ends)
    frame = frame_of(MadePacket(source, target, 80, protocol), ROUTER_MAC, PORT, SEQUENCE)
    payload = frame[14 + (20 if source.version == 4 else 40) :]
    pseudo = source.packed + target.packed + struct.pack("!HH", protocol, len(payload))
    assert packets.checksum(pseudo + payload) == 0
