"""Reads a container's log with the options of kubectl logs, without conmon's prefixes; can follow it while it
grows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from alcove.agent.logs import files
from alcove.agent.logs.entries import LogEntry, parse, seconds_of, shown_time

READ_BYTES = 64 << 10
LINE_BYTES_MAX = 1 << 20
POLL_SECONDS = 0.1

Write = Callable[[bytes], Awaitable[None]]


class LogOptions(Struct, frozen=True):
    follow: bool = False
    timestamps: bool = False
    since: float | None = None
    """Epoch seconds."""
    tail_lines: int | None = None
    limit_bytes: int | None = None
    stream: bytes = b""
    """`stdout` or `stderr`; empty for both."""


class LogFormatter:
    """Converts the bytes of log files into the output for the client."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._unread = b""
        self._has_reached_since = options.since is None
        self._in_line: set[bytes] = set()
        """Streams whose last entry did not end its line."""
        self.bytes_remaining = options.limit_bytes

    @property
    def is_full(self) -> bool:
        return self.bytes_remaining == 0

    def format(self, data: bytes) -> bytes:
        *lines, self._unread = (self._unread + data).split(b"\n")
        if len(self._unread) > LINE_BYTES_MAX:
            self._unread = b""  # Not a line that conmon wrote.
        output = b"".join([self._format_entry(entry) for line in lines if (entry := parse(line)) is not None])
        if self.bytes_remaining is not None:
            output = output[: self.bytes_remaining]
            self.bytes_remaining -= len(output)
        return output

    def _format_entry(self, entry: LogEntry) -> bytes:
        options = self._options
        if options.stream and entry.stream != options.stream:
            return b""
        if not self._has_reached_since:
            if seconds_of(entry.time) < (options.since or 0.0):
                return b""
            self._has_reached_since = True
        output = entry.output
        if options.timestamps and entry.stream not in self._in_line:
            output = shown_time(entry.time) + b" " + output
        (self._in_line.discard if entry.is_complete else self._in_line.add)(entry.stream)
        return output


async def read(path: Path, options: LogOptions, ended: asyncio.Event, write: Write) -> None:
    """Writes the requested part of the log; with `follow`, until the container has exited (`ended` is
    set)."""
    formatter = LogFormatter(options)
    with ExitStack() as stack:
        descriptors = _start(path, options, stack)
        descriptor = -1
        for descriptor in descriptors:
            await _copy(descriptor, formatter, write)
            if formatter.is_full:
                return
        if options.follow:
            await _follow(path, descriptor, formatter, ended, write)


def _start(path: Path, options: LogOptions, stack: ExitStack) -> list[int]:
    """The files to read, open at their start offsets, oldest first."""
    descriptors: list[int] = []
    lines = options.tail_lines
    for each in reversed(files.all_of(path)):
        try:
            descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # The oldest file was removed meanwhile.
        stack.callback(os.close, descriptor)
        descriptors.insert(0, descriptor)
        offset = 0
        if lines is not None:
            offset, count = files.tail_offset(descriptor, lines)
            lines -= count
        elif options.since is not None:
            offset = files.since_offset(descriptor, options.since)
        os.lseek(descriptor, offset, os.SEEK_SET)
        if lines == 0 or offset > 0:
            break
    return descriptors


async def _copy(descriptor: int, formatter: LogFormatter, write: Write) -> bool:
    """Copies from the current offset to the current end; returns whether there was any data."""
    had_data = False
    while data := os.read(descriptor, READ_BYTES):
        had_data = True
        if output := formatter.format(data):
            await write(output)
        if formatter.is_full:
            break
        await asyncio.sleep(0)  # A long log must not block the event loop.
    return had_data


async def _follow(
    path: Path, descriptor: int, formatter: LogFormatter, ended: asyncio.Event, write: Write
) -> None:
    """`descriptor` is the newest file, which was read to its end; -1 if there was none yet."""
    with ExitStack() as stack:
        while not formatter.is_full:
            has_ended = ended.is_set()
            if descriptor >= 0 and await _copy(descriptor, formatter, write):
                continue
            following = _next(path, descriptor)
            if following >= 0:
                # Entries that were written to the old file between the last read and its rename.
                await _copy(descriptor, formatter, write) if descriptor >= 0 else None
                descriptor = following
                stack.callback(os.close, descriptor)
            elif has_ended:
                return
            else:
                await _pause(ended)


async def _pause(ended: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(POLL_SECONDS):
            await ended.wait()
    except TimeoutError:
        pass


def _next(path: Path, descriptor: int) -> int:
    """Opens the file after the current one; -1 if the current one is still being written."""
    current = os.fstat(descriptor) if descriptor >= 0 else None
    try:
        if current is not None and path.stat().st_ino == current.st_ino:
            return -1
        existing = [(each, each.stat()) for each in files.all_of(path)]
        inodes = [state.st_ino for _, state in existing]
        if current is None:
            index = 0
        elif current.st_ino in inodes:
            index = inodes.index(current.st_ino) + 1
        else:
            # Rotation removed the file, or conmon began it anew: go on with the first one that is newer.
            newer = (state.st_mtime_ns >= current.st_mtime_ns for _, state in existing)
            index = list(newer).index(True)
        return os.open(existing[index][0], os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, IndexError, ValueError):
        return -1
