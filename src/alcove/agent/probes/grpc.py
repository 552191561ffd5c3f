"""The gRPC health check over an existing connection (gRPC libraries would open their own).

Sends one request as HTTP/2 frames with uncompressed headers. Only the message of the response is
used: `grpc.health.v1.HealthCheckResponse`, whose status 1 is SERVING.
"""

from __future__ import annotations

import asyncio
import socket
from struct import pack, unpack

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_STREAM = 1
_FRAME_BYTES_MAX = 1 << 14
_HEADER_LIST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/grpc.health.v1.Health/Check"),
    (":authority", "localhost"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)
_STATES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_SERVING = 1


async def is_serving(sock: socket.socket, service: str) -> tuple[bool, str]:
    """Whether the service is SERVING, and a message for when it is not. Closes the connection."""
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _request(service))
        message = await _read_response(reader, writer)
    finally:
        writer.close()
    state = _status(message)
    return state == _SERVING, f'service unhealthy (responded with "{_STATES.get(state, state)}")'


def _request(service: str) -> bytes:
    name = service.encode()
    body = b"\x0a" + _varint(len(name)) + name if name else b""
    message = pack(">BI", 0, len(body)) + body
    headers = b"".join(b"\x00" + _text(name) + _text(value) for name, value in _HEADER_LIST)
    return _frame(_HEADERS, _END_HEADERS, _STREAM, headers) + _frame(_DATA, _END_STREAM, _STREAM, message)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return pack(">I", len(payload))[1:] + pack(">BBI", kind, flags, stream) + payload


def _text(value: str) -> bytes:
    """A header string shorter than 127 bytes, without Huffman coding."""
    return bytes([len(value)]) + value.encode()


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


async def _read_response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The bytes of the response message; empty if the stream ended without one."""
    data = b""
    while True:
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = unpack(">I", head[5:])[0] & 0x7FFFFFFF
        if length > _FRAME_BYTES_MAX:
            raise ValueError("response frame is too large")
        payload = await reader.readexactly(length)
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            writer.write(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind in (_GOAWAY, _RESET):
            raise ValueError("request was rejected by the server")
        elif stream == _STREAM and kind == _DATA:
            data += payload[1 : len(payload) - payload[0]] if flags & 8 else payload
            if len(data) > _FRAME_BYTES_MAX:
                raise ValueError("response is too long")
        if stream == _STREAM and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            return data[5:]


def _status(message: bytes) -> int:
    """Field 1 of the message; zero if it is missing."""
    return message[1] if len(message) >= 2 and message[0] == 0x08 else 0
