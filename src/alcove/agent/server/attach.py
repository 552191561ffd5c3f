"""The streams of a container's own process, from now on, beside whoever else is attached."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, runtime_checkable

from alcove.agent.runtime.base import ContainerId
from alcove.agent.server import channels
from alcove.agent.server.channels import STDERR, STDOUT, RequestedStreams, StreamChannels
from alcove.component.tasks import stop

PACKET_BYTES_MAX = 8 << 10
"""conmon reads no longer packets."""
RECEIVE_BYTES = 64 << 10
RESIZE_SECONDS_MIN = 0.05
_FROM_ERRORS = 3


@runtime_checkable
class Attachable(Protocol):
    """A runtime whose containers have streams to attach to."""

    def attach(self, container: ContainerId) -> socket.socket:
        """Packets: input as it is; of what comes out, the first byte tells the stream (2: output, 3: errors)."""
        ...

    def resize(self, container: ContainerId, width: int, height: int) -> None:
        """Of the container's terminal, if it has one."""
        ...


async def run(
    runtime: Attachable,
    container: ContainerId,
    stream: socket.socket,
    wanted: RequestedStreams,
    client: StreamChannels,
) -> None:
    """Until the container's process ends, or the client leaves. Raises ConnectionError."""
    feeding = [asyncio.create_task(_copy_in(stream, client), name="attach stdin")] if wanted.stdin else []
    if wanted.tty:
        feeding.append(asyncio.create_task(_resize(runtime, container, client), name="attach resize"))
    try:
        await _copy_out(stream, wanted, client)
    finally:
        await stop(*feeding)
    await client.finish(channels.success())


async def _copy_out(stream: socket.socket, wanted: RequestedStreams, client: StreamChannels) -> None:
    loop = asyncio.get_running_loop()
    while packet := await _received(loop, stream):
        is_errors = packet[0] == _FROM_ERRORS
        if is_errors and wanted.stderr:
            await client.write(STDERR, packet[1:])
        elif not is_errors and wanted.stdout:
            await client.write(STDOUT, packet[1:])


async def _received(loop: asyncio.AbstractEventLoop, stream: socket.socket) -> bytes:
    try:
        return await loop.sock_recv(stream, RECEIVE_BYTES)
    except OSError:
        return b""


async def _copy_in(stream: socket.socket, client: StreamChannels) -> None:
    loop = asyncio.get_running_loop()
    try:
        while data := await client.stdin.get():
            for start in range(0, len(data), PACKET_BYTES_MAX):
                await loop.sock_sendall(stream, data[start : start + PACKET_BYTES_MAX])
        stream.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # The container has ended; what comes out says so.


async def _resize(runtime: Attachable, container: ContainerId, client: StreamChannels) -> None:
    async for size in channels.sizes_of(client.sizes):
        runtime.resize(container, size.width, size.height)
        # Of two that it finds at once, conmon takes the first; the last is the one that counts.
        await asyncio.sleep(RESIZE_SECONDS_MIN)
