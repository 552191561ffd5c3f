"""A process in a container, with the client's streams. It ends when the client leaves."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any

from alcove.agent.runtime.base import ContainerId, Exec, Runtime, RuntimeFailure
from alcove.agent.server import channels
from alcove.agent.server.channels import STDERR, STDOUT, Channels, Wanted
from alcove.agent.server.descriptors import Sink, Source
from alcove.api.objects import Object

_Feeding = Coroutine[Any, Any, None]


async def run(
    runtime: Runtime, container: ContainerId, command: Sequence[str], wanted: Wanted, client: Channels
) -> None:
    """Runs the command to its end and tells the client how it ended. Raises ConnectionError."""
    with ExitStack() as closing:
        streams = _Streams(closing, wanted)
        pumps = [
            asyncio.create_task(_copy_out(source, client, channel))
            for channel, source in streams.sources.items()
        ]
        feeding = [asyncio.create_task(each) for each in streams.inputs(client)]
        try:
            outcome = await _outcome(runtime, container, streams.process(command))
            for source in streams.sources.values():
                source.finish()
            await asyncio.gather(*pumps)
        finally:
            for task in (*feeding, *pumps):
                task.cancel()
            await asyncio.gather(*feeding, *pumps, return_exceptions=True)
        await client.finish(outcome)


async def _outcome(runtime: Runtime, container: ContainerId, process: Exec) -> Object:
    try:
        return channels.exited(await runtime.exec(container, process))
    except RuntimeFailure as error:
        return channels.failure(f"error executing command in container: {error}")


async def _copy_out(source: Source, client: Channels, channel: int) -> None:
    while data := await source.read():
        await client.write(channel, data)


class _Streams:
    """The descriptors between the client and the process; closed with the stack."""

    def __init__(self, closing: ExitStack, wanted: Wanted) -> None:
        self.sources: dict[int, Source] = {}
        self._wanted = wanted
        self._sink: Sink | None = None
        self._end_input: Callable[[], None] = lambda: None
        self._terminal = -1
        self._ends: dict[str, int] = {}
        if wanted.tty:
            self._open_terminal(closing)
        else:
            self._open_pipes(closing)

    def _open_terminal(self, closing: ExitStack) -> None:
        upper, lower = os.openpty()
        closing.callback(os.close, upper)
        closing.callback(os.close, lower)
        self._terminal = upper
        self._ends = {"stdin": lower, "stdout": lower, "stderr": lower}
        self._sink = Sink(upper)
        self.sources[STDOUT] = Source(upper)

    def _open_pipes(self, closing: ExitStack) -> None:
        for name, channel in (("stdout", STDOUT), ("stderr", STDERR)):
            if getattr(self._wanted, name):
                reading, self._ends[name] = os.pipe()
                closing.callback(os.close, reading)
                closing.callback(os.close, self._ends[name])
                self.sources[channel] = Source(reading)
        if self._wanted.stdin:
            self._ends["stdin"], writing = os.pipe()
            closing.callback(os.close, self._ends["stdin"])
            input_stack = closing.enter_context(ExitStack())
            input_stack.callback(os.close, writing)
            self._sink, self._end_input = Sink(writing), input_stack.close

    def process(self, command: Sequence[str]) -> Exec:
        return Exec(
            command,
            self._wanted.tty,
            self._ends.get("stdin"),
            self._ends.get("stdout"),
            self._ends.get("stderr"),
        )

    def inputs(self, client: Channels) -> list[_Feeding]:
        """What brings the client's input to the process, while that runs."""
        found: list[_Feeding] = []
        if self._wanted.stdin and self._sink is not None:
            found.append(self._copy_in(client, self._sink))
        if self._wanted.tty:
            found.append(self._resize(client))
        return found

    async def _copy_in(self, client: Channels, sink: Sink) -> None:
        while data := await client.stdin.get():
            await sink.write(data)
        if not self._wanted.tty:
            self._end_input()

    async def _resize(self, client: Channels) -> None:
        async for size in channels.sizes_of(client.sizes):
            fcntl.ioctl(
                self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0)
            )
