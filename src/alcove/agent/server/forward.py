"""Port-forward to a pod: a pair of streams (data, errors) for every connection.

Over SPDY/3.1 the client opens a pair for each connection, named by the headers `port` and `requestid`; SPDY
may itself be carried by a WebSocket (`SPDY/3.1+portforward.k8s.io`, what kubectl speaks since 1.31). Over a
plain WebSocket (`v4.channel.k8s.io` and older) there is one connection for each port that the request names.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import Protocol

from alcove.agent.server import websocket
from alcove.agent.server.inbox import Inbox
from alcove.agent.server.pings import pinging
from alcove.agent.server.requests import NodeRequest
from alcove.agent.server.running_containers import PodHandle
from alcove.agent.server.spdy.session import SpdySession, SpdyStream
from alcove.agent.server.websocket import ANSWER_SECONDS_MAX, BEFORE_V5, WebSocket, WebSocketTunnel
from alcove.api.errors import BadRequest
from alcove.component.tasks import TaskSet, stop
from alcove.http.streams import HttpServerStream

TUNNELLED = "SPDY/3.1+portforward.k8s.io"
FORWARD = "portforward.k8s.io"
SPDY = "SPDY/3.1"
READ_BYTES = 32 << 10
PORTS_MAX = 64
DIAL_SECONDS_MAX = 10.0


class ForwardedStream(Protocol):
    """The client's side of one connection."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None: ...


async def serve(connection: HttpServerStream, request: NodeRequest, pod: PodHandle) -> None:
    """Returns when the client disconnects. Raises BadRequest before the connection is upgraded."""
    if websocket.is_upgrade_request(request):
        protocol = websocket.chosen(request, (TUNNELLED, *BEFORE_V5))
        if protocol == TUNNELLED:
            tunnel = WebSocketTunnel(await WebSocket.accept(connection, request, protocol))
            await _serve_session(SpdySession(tunnel), pod)
        else:
            ports = _ports(request)
            await _PlainWebSocket(await WebSocket.accept(connection, request, protocol), pod, ports).run()
    elif request.headers.get("upgrade", "").lower() == SPDY.lower():
        if FORWARD not in request.headers.get("x-stream-protocol-version", ""):
            raise BadRequest(f"unable to upgrade: protocol {FORWARD} is required")
        headers = {"Upgrade": SPDY, "Connection": "Upgrade", "X-Stream-Protocol-Version": FORWARD}
        await connection.switch(headers)
        await _serve_session(SpdySession(connection), pod)
    else:
        raise BadRequest("unable to upgrade: missing upgrade headers in request")


async def _serve_session(session: SpdySession, pod: PodHandle) -> None:
    waiting: dict[str, SpdyStream] = {}
    """The first stream of each pair, until the second is opened."""
    reading = asyncio.create_task(session.run(), name="SPDY session")
    connections = TaskSet()
    try:
        while (stream := await session.accept()) is not None:
            other = waiting.pop(_pair(stream), None)
            if other is None:
                waiting[_pair(stream)] = stream
                continue
            data, errors = (stream, other) if _is_data(stream) else (other, stream)
            connections.spawn("port forward", _forward_streams(pod, data, errors))
    finally:
        await connections.close()
        await stop(reading)


def _pair(stream: SpdyStream) -> str:
    """The key shared by both streams of a connection; the oldest clients send no `requestid`."""
    return stream.headers.get("requestid") or f"port {stream.headers.get('port', '')}"


def _is_data(stream: SpdyStream) -> bool:
    return stream.headers.get("streamtype") == "data"


async def _forward_streams(pod: PodHandle, data: SpdyStream, errors: SpdyStream) -> None:
    text = data.headers.get("port", "")
    try:
        message = await _forward(pod, int(text), data) if _is_port(text) else f'invalid port "{text}"'
        if message:
            await errors.write(message.encode())
        await errors.close()
        await data.close()
    except ConnectionError:
        return  # The client has disconnected.


async def _forward(pod: PodHandle, port: int, data: ForwardedStream) -> str:
    """Forwards one connection until it ends. Returns an error message, or an empty string. Raises
    ConnectionError if the client disconnects."""
    try:
        async with asyncio.timeout(DIAL_SECONDS_MAX):
            dialed = await pod.dial(port)
    except (OSError, TimeoutError) as error:
        # From the errno: the exception's text may contain node addresses that tenants must not see.
        reason = (
            os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "connection timed out"
        )
        return f"error forwarding port {port} to pod {pod.key.name}, uid {pod.key.uid}: {reason}"
    with dialed:
        dialed.setblocking(False)
        input_task = asyncio.create_task(_copy_in(data, dialed), name="port forward in")
        try:
            await _copy_out(dialed, data)
        finally:
            await stop(input_task)
    return ""


async def _copy_in(data: ForwardedStream, dialed: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    try:
        while chunk := await data.read():
            await loop.sock_sendall(dialed, chunk)
        dialed.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # The connection ended; `_copy_out` reports it.


async def _copy_out(dialed: socket.socket, data: ForwardedStream) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            chunk = await loop.sock_recv(dialed, READ_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            await data.end()
            return
        await data.write(chunk)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) <= 0xFFFF


def _ports(request: NodeRequest) -> Sequence[int]:
    texts = [text for value in request.query.get("ports", ()) for text in value.split(",")]
    if not texts or len(texts) > PORTS_MAX or not all(map(_is_port, texts)):
        raise BadRequest(f'query parameter "ports" must list 1 to {PORTS_MAX} ports')
    return [int(text) for text in texts]


class _PlainWebSocket:
    """A plain WebSocket: channels 2n and 2n+1 are data and errors of the nth port. The first message on each
    is its port."""

    def __init__(self, socket: WebSocket, pod: PodHandle, ports: Sequence[int]) -> None:
        self._socket = socket
        self._pod = pod
        self._ports = ports
        self._data = [_PlainStream(socket, 2 * index) for index in range(len(ports))]

    async def run(self) -> None:
        connections: list[asyncio.Task[None]] = []
        try:
            for channel in range(2 * len(self._ports)):
                port = self._ports[channel // 2].to_bytes(2, "little")
                await self._socket.send(bytes([channel]) + port)
            connections = [
                asyncio.create_task(self._forward(index), name="port forward")
                for index in range(len(self._ports))
            ]
            all_ended = asyncio.create_task(_wait_all(tuple(connections)))
            reading = asyncio.create_task(self._read())
            connections += [all_ended, reading]
            # The protocol cannot signal the end of one port: the WebSocket is closed once all ports have
            # ended.
            async with pinging(self._ping):
                await asyncio.wait((reading, all_ended), return_when=asyncio.FIRST_COMPLETED)
            await self._socket.close()
            for each in self._data:
                each.inbox.discard()
            await asyncio.wait((reading,), timeout=ANSWER_SECONDS_MAX)
        except ConnectionError:
            pass  # The client has disconnected.
        finally:
            await stop(*connections)

    async def _ping(self) -> None:
        if any(each.inbox.is_full for each in self._data):
            await self._socket.ping()

    async def _read(self) -> None:
        channel = -1
        while (piece := await self._socket.receive()) is not None:
            data = piece.data
            if piece.is_first and data:
                channel, data = data[0], data[1:]
            if channel % 2 == 0 and 0 <= channel // 2 < len(self._data):
                await self._data[channel // 2].inbox.put(data)

    async def _forward(self, index: int) -> None:
        message = await _forward(self._pod, self._ports[index], self._data[index])
        if message:
            await self._socket.send(bytes([2 * index + 1]) + message.encode())


async def _wait_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


class _PlainStream:
    def __init__(self, socket: WebSocket, channel: int) -> None:
        self.inbox = Inbox()
        self._socket = socket
        self._channel = channel

    async def read(self) -> bytes:
        return await self.inbox.get()

    async def write(self, data: bytes) -> None:
        await self._socket.send(bytes([self._channel]) + data)

    async def end(self) -> None:
        """Only stops reading: the protocol cannot signal the end of one port, so nothing is sent."""
        self.inbox.discard()
