"""Route netlink, as far as the data plane needs it: requests are bytes, sent many at a time.

A library that builds a dictionary per message costs several times as much as the kernel's own work;
here a port is four requests in two system calls. A socket stays in the namespace it was opened in.
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
_ANSWER_BYTES = 1 << 18


class NetlinkRequest(Struct, frozen=True):
    """`what` tells a person what failed; `ignore` lists errnos that mean "already so"."""

    kind: int
    flags: int
    body: bytes
    what: str
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
    """The attributes in `raw`, the last of each kind."""
    found, offset = {}, 0
    while offset + 4 <= len(raw):
        size, kind = _ATTRIBUTE.unpack_from(raw, offset)
        if size < 4:
            break
        found[kind & 0x3FFF] = raw[offset + 4 : offset + size]
        offset += size + (-size % 4)
    return found


class Netlink:
    def __init__(self) -> None:
        """In the calling thread's network namespace."""
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self.socket.bind((0, 0))
        self.socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sequence = 0

    def close(self) -> None:
        self.socket.close()

    def do(self, *requests: NetlinkRequest) -> None:
        """In order, in one call; those after a failing one are carried out all the same. Raises the first
        failure that is not to be ignored."""
        if not requests:
            return
        first = self.sequence + 1
        self.socket.send(b"".join(self._encode(request, NLM_F_ACK) for request in requests))
        waiting = len(requests)
        failure: KernelRefused | None = None
        while waiting:
            for kind, sequence, body in self._receive():
                if kind != NLMSG_ERROR or sequence < first:
                    continue
                waiting -= 1
                request = requests[sequence - first]
                number = -int.from_bytes(body[:4], "little", signed=True)
                if number and number not in request.ignore and failure is None:
                    failure = KernelRefused(request.what + _said(body), number)
        if failure:
            raise failure

    def dump(self, request: NetlinkRequest) -> Iterator[tuple[int, bytes]]:
        """Kind and body of every answer. Consume it whole before the next request."""
        self.socket.send(self._encode(request, NLM_F_DUMP))
        while True:
            for kind, sequence, body in self._receive():
                if sequence != self.sequence:
                    continue
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    raise KernelRefused(request.what, -int.from_bytes(body[:4], "little", signed=True))
                yield kind, body

    def ask(self, request: NetlinkRequest) -> bytes | None:
        """The body of the one answer; None if there is no such thing."""
        self.socket.send(self._encode(request, 0))
        for kind, _sequence, body in self._receive():
            if kind != NLMSG_ERROR:
                return body
            number = -int.from_bytes(body[:4], "little", signed=True)
            if number not in (errno.ENODEV, errno.ENOENT, *request.ignore):
                raise KernelRefused(request.what + _said(body), number)
        return None

    def _encode(self, request: NetlinkRequest, flags: int) -> bytes:
        self.sequence += 1
        size = 16 + len(request.body)
        flags |= request.flags | NLM_F_REQUEST
        return _HEADER.pack(size, request.kind, flags, self.sequence, 0) + request.body + b"\0" * (-size % 4)

    def _receive(self) -> Sequence[tuple[int, int, bytes]]:
        raw = self.socket.recv(_ANSWER_BYTES)
        found, offset = [], 0
        while offset + 16 <= len(raw):
            size, kind, _flags, sequence, _port = _HEADER.unpack_from(raw, offset)
            found.append((kind, sequence, raw[offset + 16 : offset + size]))
            offset += size + (-size % 4)
        return found


def _said(body: bytes) -> str:
    """The kernel's own words on a failure, if it has any."""
    output = attributes(body[20:]).get(NLMSGERR_ATTR_MSG)
    return f" ({output.rstrip(bytes(1)).decode(errors='replace')})" if output else ""
