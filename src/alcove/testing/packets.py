"""Packets built byte by byte, valid or not; raw sockets to send and capture them; test runs of BPF programs."""

import ctypes
import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

from alcove.dataplane import bpf
from alcove.dataplane.address import pack_mac
from alcove.dataplane.namespaces import inside

ETH_P_ALL, ETH_P_IP, ETH_P_ARP, ETH_P_IPV6, ETH_P_VLAN = 3, 0x0800, 0x0806, 0x86DD, 0x8100
BROADCAST = "ff:ff:ff:ff:ff:ff"
ROUTER_MAC = "02:00:00:00:00:01"
SYN, ACK, FIN, RST = 0x02, 0x10, 0x01, 0x04
CATCH_SECONDS_MAX = 30.0


def checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(~total & 0xFFFF)


def ethernet(source: str, target: str, kind: int, payload: bytes) -> bytes:
    return pack_mac(target) + pack_mac(source) + kind.to_bytes(2, "big") + payload


def ipv4(
    source: str, target: str, protocol: int, payload: bytes, *, options: bytes = b"", identity: int = 1,
    fragment: int = 0, length: int | None = None, header_words: int | None = None, ttl: int = 64,
    bad_checksum: bool = False,
) -> bytes:  # fmt: skip
    """`fragment` is the whole field: flags and offset. `length` and `header_words` may be wrong on
    purpose."""
    words = 5 + len(options) // 4
    total = words * 4 + len(payload) if length is None else length
    first = 0x40 | (words if header_words is None else header_words)
    head = struct.pack(
        "!BBHHHBBH4s4s", first, 0, total & 0xFFFF, identity, fragment, ttl, protocol, 0,
        IPv4Address(source).packed, IPv4Address(target).packed,
    )  # fmt: skip
    head += options
    value = checksum(head) ^ (0x5555 if bad_checksum else 0)
    return head[:10] + value.to_bytes(2, "big") + head[12:] + payload


def ipv6(
    source: str, target: str, next_header: int, payload: bytes, *, length: int | None = None, hops: int = 64
) -> bytes:
    size = len(payload) if length is None else length
    head = struct.pack("!IHBB", 6 << 28, size & 0xFFFF, next_header, hops)
    return head + IPv6Address(source).packed + IPv6Address(target).packed + payload


def pseudo(source: str, target: str, protocol: int, length: int) -> bytes:
    a, b = ip_address(source), ip_address(target)
    if a.version == 4:
        return a.packed + b.packed + struct.pack("!BBH", 0, protocol, length)
    return a.packed + b.packed + struct.pack("!II", length, protocol)


def udp(
    source: str, target: str, sport: int, dport: int, payload: bytes = b"", *, length: int | None = None
) -> bytes:
    size = 8 + len(payload) if length is None else length
    head = struct.pack("!HHHH", sport, dport, size, 0)
    value = checksum(pseudo(source, target, 17, 8 + len(payload)) + head + payload) or 0xFFFF
    return head[:6] + value.to_bytes(2, "big") + payload


def tcp(
    source: str, target: str, sport: int, dport: int, flags: int = SYN, payload: bytes = b"", *, words: int = 5,
    sequence: int = 1,
) -> bytes:  # fmt: skip
    head = struct.pack("!HHIIBBHHH", sport, dport, sequence, 0, words << 4, flags, 65535, 0, 0)
    value = checksum(pseudo(source, target, 6, len(head) + len(payload)) + head + payload)
    return head[:16] + value.to_bytes(2, "big") + head[18:] + payload


def icmp(kind: int, code: int = 0, identity: int = 1, payload: bytes = b"alcove") -> bytes:
    head = struct.pack("!BBHHH", kind, code, 0, identity, 1)
    return head[:2] + checksum(head + payload).to_bytes(2, "big") + head[4:] + payload


def icmp6(source: str, target: str, kind: int, body: bytes) -> bytes:
    head = bytes([kind, 0, 0, 0])
    value = checksum(pseudo(source, target, 58, 4 + len(body)) + head + body)
    return head[:2] + value.to_bytes(2, "big") + body


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sctp(sport: int, dport: int, payload: bytes = b"") -> bytes:
    head = struct.pack("!HHI", sport, dport, 7) + b"\0\0\0\0"
    return head[:8] + crc32c(head + payload).to_bytes(4, "little") + payload


def arp(
    operation: int, sender_mac: str, sender: str, target: str, target_mac: str = "00:00:00:00:00:00"
) -> bytes:
    head = struct.pack("!HHBBH", 1, ETH_P_IP, 6, 4, operation)
    return (
        head
        + pack_mac(sender_mac)
        + IPv4Address(sender).packed
        + pack_mac(target_mac)
        + IPv4Address(target).packed
    )


def neighbor_solicit(source: str, asked: str, mac: str | None) -> bytes:
    """An IPv6 packet to the target address's solicited-node group."""
    group = "ff02::1:ff" + IPv6Address(asked).exploded[-7:-5] + ":" + IPv6Address(asked).exploded[-4:]
    option = b"\x01\x01" + pack_mac(mac) if mac else b""
    body = b"\0\0\0\0" + IPv6Address(asked).packed + option
    return ipv6(source, group, 58, icmp6(source, group, 135, body), hops=255)


def vxlan(vni: int, frame: bytes, flags: int = 0x08000000) -> bytes:
    return struct.pack("!II", flags, vni << 8) + frame


class Tap:
    """A raw socket on a device of a namespace: sends frames unchanged, and captures those that arrive."""

    def __init__(self, namespace: int, interface: str) -> None:
        with inside(namespace):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self.socket.bind((interface, ETH_P_ALL))

    def send(self, frame: bytes) -> None:
        self.socket.send(frame)

    def catch(self, wanted: bytes = b"", timeout: float = CATCH_SECONDS_MAX) -> bytes | None:
        """The next received frame that contains `wanted`. None on timeout; checks for frames that should not come use
        a shorter one."""
        self.socket.settimeout(timeout)
        try:
            while True:
                frame, origin = self.socket.recvfrom(65535)
                if origin[2] != socket.PACKET_OUTGOING and wanted in frame:
                    return frame
        except TimeoutError:
            return None

    def drain(self) -> None:
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(65535)
        except BlockingIOError:
            pass

    def __enter__(self) -> "Tap":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class TestRunOptions(ctypes.Structure):
    __test__ = False
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("data_in", ctypes.c_void_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_void_p),
        ("ctx_out", ctypes.c_void_p),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    )


def run_once(program: int, packet: bytes, context: bytes = b"") -> tuple[int, bytes]:
    """BPF_PROG_TEST_RUN: the program's return value and the packet after it."""
    out = ctypes.create_string_buffer(len(packet) + 512)
    data = ctypes.create_string_buffer(packet, len(packet))
    options = TestRunOptions(sz=ctypes.sizeof(TestRunOptions))
    options.data_in, options.data_size_in = ctypes.addressof(data), len(packet)
    options.data_out, options.data_size_out = ctypes.addressof(out), len(out)
    if context:
        extra = ctypes.create_string_buffer(context, len(context))
        options.ctx_in, options.ctx_size_in = ctypes.addressof(extra), len(context)
    failed = bpf.library().bpf_prog_test_run_opts(program, ctypes.byref(options))
    if failed:
        raise OSError(-failed, "test run")
    return ctypes.c_int32(options.retval).value, out.raw[: options.data_size_out]
