"""Route netlink for the data plane: requests are bytes, and are sent in batches.

A library that builds a dictionary per message would cost several times as much as the kernel's work; here a
veth takes four requests in two system calls. A socket stays in the namespace in which it was opened.
"""

import errno
import socket
import struct
from collections.abc import Iterator, Sequence

from msgspec import Struct

from alcove.dataplane.errors import KernelRefused

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
NLA_F_NESTED = 0x8000
SOL_NETLINK, NETLINK_EXT_ACK, NETLINK_CAP_ACK = 270, 11, 10
NLMSGERR_ATTR_MSG = 1

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_RESPONSE_BYTES = 1 << 18


class NetlinkRequest(Struct, frozen=True):
    """`description` is the operation in error messages; `ignore` lists errnos that do not count as
    failures."""

    kind: int
    flags: int
    body: bytes
    description: str
    ignore: tuple[int, ...] = ()


def attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return _ATTRIBUTE.pack(size, kind) + value + b"\0" * (-size % 4)


def attribute_u32(kind: int, value: int) -> bytes:
    return _ATTRIBUTE.pack(8, kind) + value.to_bytes(4, "little")


def attribute_text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def nested(kind: int, *attributes: bytes) -> bytes:
    return attribute(kind | NLA_F_NESTED, b"".join(attributes))


def attributes(raw: bytes) -> dict[int, bytes]:
    """The attributes in `raw`; of several of one kind the last one."""
    values, offset = {}, 0
    while offset + 4 <= len(raw):
        size, kind = _ATTRIBUTE.unpack_from(raw, offset)
        if size < 4:
            break
        values[kind & 0x3FFF] = raw[offset + 4 : offset + size]
        offset += size + (-size % 4)
    return values


class Netlink:
    def __init__(self) -> None:
        """Opens a socket in the calling thread's network namespace."""
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self.socket.bind((0, 0))
        self.socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sequence = 0

    def close(self) -> None:
        self.socket.close()

    def do(self, *requests: NetlinkRequest) -> None:
        """Sends the requests in order in one call; a failure does not stop later requests. Raises the first
        failure that is not ignored, as KernelRefused."""
        if not requests:
            return
        first = self.sequence + 1
        self.socket.send(b"".join(self._encode(request, NLM_F_ACK) for request in requests))
        pending = len(requests)
        failure: KernelRefused | None = None
        while pending:
            for kind, sequence, body in self._receive():
                if kind != NLMSG_ERROR or sequence < first:
                    continue
                pending -= 1
                request = requests[sequence - first]
                number = -int.from_bytes(body[:4], "little", signed=True)
                if number and number not in request.ignore and failure is None:
                    failure = KernelRefused(request.description + _kernel_message(body), number)
        if failure:
            raise failure

    def dump(self, request: NetlinkRequest) -> Iterator[tuple[int, bytes]]:
        """Kind and body of every response message. Must be consumed before the next request. Raises
        KernelRefused."""
        self.socket.send(self._encode(request, NLM_F_DUMP))
        while True:
            for kind, sequence, body in self._receive():
                if sequence != self.sequence:
                    continue
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    raise KernelRefused(request.description, -int.from_bytes(body[:4], "little", signed=True))
                yield kind, body

    def ask(self, request: NetlinkRequest) -> bytes | None:
        """The body of the single response; None if the object does not exist. Raises KernelRefused."""
        self.socket.send(self._encode(request, 0))
        for kind, _sequence, body in self._receive():
            if kind != NLMSG_ERROR:
                return body
            number = -int.from_bytes(body[:4], "little", signed=True)
            if number not in (errno.ENODEV, errno.ENOENT, *request.ignore):
                raise KernelRefused(request.description + _kernel_message(body), number)
        return None

    def _encode(self, request: NetlinkRequest, flags: int) -> bytes:
        self.sequence += 1
        size = 16 + len(request.body)
        flags |= request.flags | NLM_F_REQUEST
        return _HEADER.pack(size, request.kind, flags, self.sequence, 0) + request.body + b"\0" * (-size % 4)

    def _receive(self) -> Sequence[tuple[int, int, bytes]]:
        raw = self.socket.recv(_RESPONSE_BYTES)
        messages, offset = [], 0
        while offset + 16 <= len(raw):
            size, kind, _flags, sequence, _port = _HEADER.unpack_from(raw, offset)
            messages.append((kind, sequence, raw[offset + 16 : offset + size]))
            offset += size + (-size % 4)
        return messages


def _kernel_message(body: bytes) -> str:
    """The kernel's extended error message in parentheses, if any."""
    message = attributes(body[20:]).get(NLMSGERR_ATTR_MSG)
    return f" ({message.rstrip(bytes(1)).decode(errors='replace')})" if message else ""
