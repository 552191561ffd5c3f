"""Attach: the streams of a container's main process. Several clients may be attached at the same time."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, runtime_checkable

from alcove.agent.runtime.base import ContainerId
from alcove.agent.server import channels
from alcove.agent.server.channels import STDERR, STDOUT, RequestedStreams, StreamChannels
from alcove.component.tasks import stop

PACKET_BYTES_MAX = 8 << 10
"""conmon does not read longer packets."""
RECEIVE_BYTES = 64 << 10
RESIZE_SECONDS_MIN = 0.05
_STDERR_PACKET = 3


@runtime_checkable
class Attachable(Protocol):
    """A runtime whose containers have streams to attach to."""

    def attach(self, container: ContainerId) -> socket.socket:
        """A packet socket. Packets sent are stdin; the first byte of a received packet is its stream (2:
        stdout, 3: stderr)."""
        ...

    def resize(self, container: ContainerId, width: int, height: int) -> None:
        """Sets the size of the container's terminal; does nothing if it has none."""
        ...


async def run(
    runtime: Attachable,
    container: ContainerId,
    stream: socket.socket,
    requested: RequestedStreams,
    client: StreamChannels,
) -> None:
    """Returns when the container's process exits or the client disconnects. Raises ConnectionError."""
    input_tasks = (
        [asyncio.create_task(_copy_in(stream, client), name="attach stdin")] if requested.stdin else []
    )
    if requested.tty:
        input_tasks.append(asyncio.create_task(_resize(runtime, container, client), name="attach resize"))
    try:
        await _copy_out(stream, requested, client)
    finally:
        await stop(*input_tasks)
    await client.finish(channels.success())


async def _copy_out(stream: socket.socket, requested: RequestedStreams, client: StreamChannels) -> None:
    loop = asyncio.get_running_loop()
    while packet := await _receive(loop, stream):
        is_stderr = packet[0] == _STDERR_PACKET
        if is_stderr and requested.stderr:
            await client.write(STDERR, packet[1:])
        elif not is_stderr and requested.stdout:
            await client.write(STDOUT, packet[1:])


async def _receive(loop: asyncio.AbstractEventLoop, stream: socket.socket) -> bytes:
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
        pass  # The container has exited; reading its output returns the end.


async def _resize(runtime: Attachable, container: ContainerId, client: StreamChannels) -> None:
    async for size in channels.sizes_of(client.sizes):
        runtime.resize(container, size.width, size.height)
        # Of two sizes that arrive together conmon applies only the first, but the last is the current one.
        await asyncio.sleep(RESIZE_SECONDS_MIN)
