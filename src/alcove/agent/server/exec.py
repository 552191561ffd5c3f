"""A process in a container, with the client's streams. It ends when the client leaves."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Sequence
from contextlib import ExitStack

from alcove.agent.runtime.base import ContainerId, ContainerRuntime, ExecSession, RuntimeFailure
from alcove.agent.server import channels
from alcove.agent.server.channels import STDERR, STDOUT, RequestedStreams, StreamChannels
from alcove.agent.server.descriptors import DescriptorReader, DescriptorWriter
from alcove.api.objects import Object
from alcove.component.tasks import stop


async def run(
    runtime: ContainerRuntime,
    container: ContainerId,
    command: Sequence[str],
    wanted: RequestedStreams,
    client: StreamChannels,
) -> None:
    """Runs the command to its end and tells the client how it ended. Raises ConnectionError."""
    with ExitStack() as closing:
        async with _Copying(client, closing) as copying:
            process = copying.terminal(command) if wanted.tty else copying.pipes(command, wanted)
            outcome = await _outcome(runtime, container, process)
            await copying.drain()
        await client.finish(outcome)


async def _outcome(runtime: ContainerRuntime, container: ContainerId, process: ExecSession) -> Object:
    try:
        return channels.exited(await runtime.exec(container, process))
    except RuntimeFailure as error:
        return channels.failure(f"error executing command in container: {error}")


class _Copying:
    """What goes between the client and the process; descriptors are closed with the stack."""

    def __init__(self, client: StreamChannels, closing: ExitStack) -> None:
        self._client = client
        self._closing = closing
        self._sources: list[DescriptorReader] = []
        self._out: list[asyncio.Task[None]] = []
        self._in: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> _Copying:
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(*self._in, *self._out)

    async def drain(self) -> None:
        """The process has ended: what it said before is told, then it is over. Raises ConnectionError."""
        for source in self._sources:
            source.finish()
        await asyncio.gather(*self._out)

    def pipes(self, command: Sequence[str], wanted: RequestedStreams) -> ExecSession:
        stdin = self._input() if wanted.stdin else None
        stdout = self._output(STDOUT) if wanted.stdout else None
        stderr = self._output(STDERR) if wanted.stderr else None
        return ExecSession(command, False, stdin, stdout, stderr)

    def terminal(self, command: Sequence[str]) -> ExecSession:
        complaints = self._output(STDOUT)
        return ExecSession(command, True, None, complaints, complaints, self._take_terminal)

    def _take_terminal(self, upper: int) -> None:
        self._closing.callback(os.close, upper)
        self._copy_out(upper, STDOUT)
        self._in.append(asyncio.create_task(self._copy_in(DescriptorWriter(upper)), name="exec stdin"))
        self._in.append(asyncio.create_task(self._resize(upper), name="exec resize"))

    def _output(self, channel: int) -> int:
        reading, writing = os.pipe()
        self._closing.callback(os.close, reading)
        self._closing.callback(os.close, writing)
        self._copy_out(reading, channel)
        return writing

    def _input(self) -> int:
        reading, writing = os.pipe()
        self._closing.callback(os.close, reading)
        end = self._closing.enter_context(ExitStack())
        end.callback(os.close, writing)
        self._in.append(asyncio.create_task(self._copy_in(DescriptorWriter(writing), end), name="exec stdin"))
        return reading

    def _copy_out(self, descriptor: int, channel: int) -> None:
        source = DescriptorReader(descriptor)
        self._sources.append(source)
        self._out.append(asyncio.create_task(self._tell(source, channel), name="exec output"))

    async def _tell(self, source: DescriptorReader, channel: int) -> None:
        while data := await source.read():
            await self._client.write(channel, data)

    async def _copy_in(self, sink: DescriptorWriter, end: ExitStack | None = None) -> None:
        while data := await self._client.stdin.get():
            await sink.write(data)
        if end is not None:
            end.close()

    async def _resize(self, terminal: int) -> None:
        async for size in channels.sizes_of(self._client.sizes):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
