"""Exec: a process in a container with the client's streams. It is killed when the client disconnects."""

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
    requested: RequestedStreams,
    client: StreamChannels,
) -> None:
    """Runs the command until it exits and sends the outcome to the client. Raises ConnectionError."""
    with ExitStack() as stack:
        async with _StreamCopier(client, stack) as copier:
            process = copier.terminal(command) if requested.tty else copier.pipes(command, requested)
            outcome = await _outcome(runtime, container, process)
            await copier.drain()
        await client.finish(outcome)


async def _outcome(runtime: ContainerRuntime, container: ContainerId, process: ExecSession) -> Object:
    try:
        return channels.exited(await runtime.exec(container, process))
    except RuntimeFailure as error:
        return channels.failure(f"error executing command in container: {error}")


class _StreamCopier:
    """Copies data between the client and the process. The exit stack closes the descriptors."""

    def __init__(self, client: StreamChannels, stack: ExitStack) -> None:
        self._client = client
        self._stack = stack
        self._sources: list[DescriptorReader] = []
        self._output_tasks: list[asyncio.Task[None]] = []
        self._input_tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> _StreamCopier:
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(*self._input_tasks, *self._output_tasks)

    async def drain(self) -> None:
        """Sends the remaining output of the process, which has exited. Raises ConnectionError."""
        for source in self._sources:
            source.finish()
        await asyncio.gather(*self._output_tasks)

    def pipes(self, command: Sequence[str], requested: RequestedStreams) -> ExecSession:
        stdin = self._input() if requested.stdin else None
        stdout = self._output(STDOUT) if requested.stdout else None
        stderr = self._output(STDERR) if requested.stderr else None
        return ExecSession(command, False, stdin, stdout, stderr)

    def terminal(self, command: Sequence[str]) -> ExecSession:
        errors = self._output(STDOUT)
        return ExecSession(command, True, None, errors, errors, self._attach_terminal)

    def _attach_terminal(self, master: int) -> None:
        self._stack.callback(os.close, master)
        self._start_output(master, STDOUT)
        self._input_tasks.append(
            asyncio.create_task(self._copy_in(DescriptorWriter(master)), name="exec stdin")
        )
        self._input_tasks.append(asyncio.create_task(self._resize(master), name="exec resize"))

    def _output(self, channel: int) -> int:
        reading, writing = os.pipe()
        self._stack.callback(os.close, reading)
        self._stack.callback(os.close, writing)
        self._start_output(reading, channel)
        return writing

    def _input(self) -> int:
        reading, writing = os.pipe()
        self._stack.callback(os.close, reading)
        close_stdin = self._stack.enter_context(ExitStack())
        close_stdin.callback(os.close, writing)
        self._input_tasks.append(
            asyncio.create_task(self._copy_in(DescriptorWriter(writing), close_stdin), name="exec stdin")
        )
        return reading

    def _start_output(self, descriptor: int, channel: int) -> None:
        source = DescriptorReader(descriptor)
        self._sources.append(source)
        self._output_tasks.append(asyncio.create_task(self._send_output(source, channel), name="exec output"))

    async def _send_output(self, source: DescriptorReader, channel: int) -> None:
        while data := await source.read():
            await self._client.write(channel, data)

    async def _copy_in(self, sink: DescriptorWriter, close_stdin: ExitStack | None = None) -> None:
        while data := await self._client.stdin.get():
            await sink.write(data)
        if close_stdin is not None:
            close_stdin.close()

    async def _resize(self, terminal: int) -> None:
        async for size in channels.sizes_of(self._client.sizes):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
