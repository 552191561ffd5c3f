"""A pod's packets as the pod sees them: read by a packet socket in its network namespace, sent as pcapng.

Bounded in bytes and time, and in the agent's own time: of more packets than it reads, the kernel keeps some and counts the
others as dropped, which the end of the file says.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
import time
from pathlib import Path

from msgspec import Struct

from alcove.agent.server import pcapng
from alcove.agent.server.requests import NodeRequest
from alcove.api import capture_bounds, captures
from alcove.api.errors import BadRequest, ServiceUnavailable
from alcove.component.tasks import stop
from alcove.dataplane.namespaces import inside
from alcove.http.streams import HttpServerStream

CAPTURES_MAX = 8
"""Captures at the same time on a node; a tenant may have at most as many as are free after it."""
TURN_PACKETS_MAX = 64
TURN_SECONDS = 0.005
"""After so many packets a capture pauses: others need the event loop too."""
BUFFER_BYTES = 4 << 20
_ALL_PROTOCOLS = 0x0003
_ATTACH_FILTER, _TIMESTAMP_NS, _BUFFER_FORCE = 26, 35, 33
_PACKET_LEVEL, _STATISTICS = 263, 6
_OUTGOING = 4
_ANCILLARY_BYTES = 64
_INSTRUCTION_BYTES = 8


class CapturePlace(Struct, frozen=True):
    """Where a pod's packets are read."""

    namespace: Path
    interface: str


class CaptureBounds(Struct, frozen=True):
    seconds: int
    bytes: int
    packet_bytes: int


async def serve(connection: HttpServerStream, request: NodeRequest, place: CapturePlace) -> None:
    """Raises ApiError, before the response has begun."""
    bounds = _bounds(request)
    sock = open_socket(place, captures.decode(request.first("filter")))
    reading: asyncio.Task[None] | None = None
    try:
        await connection.begin(captures.CONTENT_TYPE)
        await connection.chunk(pcapng.head(place.interface, bounds.packet_bytes))
        reading = asyncio.create_task(_read(connection, sock, bounds))
        leaving = asyncio.create_task(_wait_for_disconnect(connection))
        try:
            await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
                await connection.end()
        finally:
            await stop(reading, leaving)
    finally:
        sock.close()


def _bounds(request: NodeRequest) -> CaptureBounds:
    values = [request.number(name) or 0 for name in ("seconds", "bytes", "packetBytes")]
    most = (capture_bounds.SECONDS_MAX, capture_bounds.BYTES_MAX, capture_bounds.PACKET_BYTES_MAX)
    if not all(0 < value <= bound for value, bound in zip(values, most, strict=True)):
        raise BadRequest(
            "query parameters seconds, bytes and packetBytes must be positive and within their bounds"
        )
    return CaptureBounds(*values)


def open_socket(place: CapturePlace, program: bytes) -> socket.socket:
    """A socket that gets packets from now on. Raises BadRequest, ServiceUnavailable."""
    try:
        namespace = os.open(place.namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ServiceUnavailable("the pod's network is gone") from error
    try:
        with inside(namespace):
            # Without a protocol, so that it gets nothing before it has its filter.
            sock = socket.socket(
                socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0
            )
    finally:
        os.close(namespace)
    try:
        if program:
            _attach(sock, program)
        sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
        sock.setsockopt(socket.SOL_SOCKET, _BUFFER_FORCE, BUFFER_BYTES)
        sock.bind((place.interface, _ALL_PROTOCOLS))
    except BadRequest:
        sock.close()
        raise
    except OSError as error:
        sock.close()
        raise ServiceUnavailable(
            f"the pod's interface cannot be read: {os.strerror(error.errno or 0)}"
        ) from error
    return sock


def _attach(sock: socket.socket, program: bytes) -> None:
    instructions = ctypes.create_string_buffer(program, len(program))
    count = len(program) // _INSTRUCTION_BYTES
    try:
        sock.setsockopt(
            socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HxxxxxxP", count, ctypes.addressof(instructions))
        )
    except OSError as error:
        raise BadRequest(f"the kernel refuses the filter: {os.strerror(error.errno or 0)}") from error


async def _read(connection: HttpServerStream, sock: socket.socket, bounds: CaptureBounds) -> None:
    """Sends packets until a bound is reached, or the pod's interface is gone."""
    deadline = time.monotonic() + bounds.seconds
    left, room = bounds.bytes, bytearray(bounds.packet_bytes)
    loop = asyncio.get_running_loop()
    is_up = True
    while is_up and left > 0 and (seconds := deadline - time.monotonic()) > 0:
        if not await readable(loop, sock, seconds):
            break
        blocks: list[bytes] = []
        for _ in range(TURN_PACKETS_MAX):
            try:
                block = receive(sock, room)
            except BlockingIOError:
                break
            except OSError:
                is_up = False
                break
            left -= len(block)
            if left < 0:
                break
            blocks.append(block)
        if blocks:
            await connection.chunk(b"".join(blocks))
        await asyncio.sleep(TURN_SECONDS)
    await connection.chunk(pcapng.statistics(time.time_ns(), *_counts(sock)))


async def readable(loop: asyncio.AbstractEventLoop, sock: socket.socket, seconds: float) -> bool:
    """False if nothing has come in this time."""
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock.fileno(), _wake, ready)
    try:
        async with asyncio.timeout(seconds):
            await ready
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(sock.fileno())
    return True


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def receive(sock: socket.socket, room: bytearray) -> bytes:
    """The next packet, as a block. Raises BlockingIOError, OSError."""
    # MSG_TRUNC: the length is that of the whole packet.
    length, ancillary, _, address = sock.recvmsg_into([room], _ANCILLARY_BYTES, socket.MSG_TRUNC)
    at_ns = time.time_ns()
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMP_NS):
            seconds, nanoseconds = struct.unpack("qq", data)
            at_ns = seconds * 1_000_000_000 + nanoseconds
    return pcapng.packet(bytes(room[:length]), length, at_ns, is_sent=address[2] == _OUTGOING)


def _counts(sock: socket.socket) -> tuple[int, int]:
    """Packets that passed the filter, and those of them that were dropped."""
    received, dropped = struct.unpack("II", sock.getsockopt(_PACKET_LEVEL, _STATISTICS, 8))
    return received, dropped


async def _wait_for_disconnect(connection: HttpServerStream) -> None:
    while await connection.read():
        pass
