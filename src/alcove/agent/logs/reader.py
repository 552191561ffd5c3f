"""What a client asks for of a container's log: a part of it, without what conmon wrote beside, also while it grows."""

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
    """stdout, stderr; empty: both."""


class LogFormatter:
    """Bytes of log files in, bytes for the client out."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._unread = b""
        self._is_since = options.since is None
        self._in_line: set[bytes] = set()
        """Streams whose last entry did not end its line."""
        self.bytes_left = options.limit_bytes

    @property
    def is_full(self) -> bool:
        return self.bytes_left == 0

    def format(self, data: bytes) -> bytes:
        *lines, self._unread = (self._unread + data).split(b"\n")
        if len(self._unread) > LINE_BYTES_MAX:
            self._unread = b""  # No line of ours.
        said = b"".join([self._said(entry) for line in lines if (entry := parse(line)) is not None])
        if self.bytes_left is not None:
            said = said[: self.bytes_left]
            self.bytes_left -= len(said)
        return said

    def _said(self, entry: LogEntry) -> bytes:
        options = self._options
        if options.stream and entry.stream != options.stream:
            return b""
        if not self._is_since:
            if seconds_of(entry.time) < (options.since or 0.0):
                return b""
            self._is_since = True
        said = entry.text + b"\n" if entry.is_whole else entry.text
        if options.timestamps and entry.stream not in self._in_line:
            said = shown_time(entry.time) + b" " + said
        (self._in_line.discard if entry.is_whole else self._in_line.add)(entry.stream)
        return said


async def read(path: Path, options: LogOptions, ended: asyncio.Event, write: Write) -> None:
    """Writes what was asked for; following, until the container has `ended`."""
    formatter = LogFormatter(options)
    with ExitStack() as closing:
        following = _start(path, options, closing)
        descriptor = -1
        for descriptor in following:
            await _copy(descriptor, formatter, write)
            if formatter.is_full:
                return
        if options.follow:
            await _follow(path, descriptor, formatter, ended, write)


def _start(path: Path, options: LogOptions, closing: ExitStack) -> list[int]:
    """The files to read, each open where to begin, the oldest first."""
    opened: list[int] = []
    lines = options.tail_lines
    for each in reversed(files.all_of(path)):
        try:
            descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # The oldest one, which went meanwhile.
        closing.callback(os.close, descriptor)
        opened.insert(0, descriptor)
        offset = 0
        if lines is not None:
            offset, found = files.tail_offset(descriptor, lines)
            lines -= found
        elif options.since is not None:
            offset = files.since_offset(descriptor, options.since)
        os.lseek(descriptor, offset, os.SEEK_SET)
        if lines == 0 or offset > 0:
            break
    return opened


async def _copy(descriptor: int, formatter: LogFormatter, write: Write) -> bool:
    """From where the file stands to its present end; whether there was anything."""
    was_any = False
    while data := os.read(descriptor, READ_BYTES):
        was_any = True
        if said := formatter.format(data):
            await write(said)
        if formatter.is_full:
            break
        await asyncio.sleep(0)  # A long log is not to keep others waiting.
    return was_any


async def _follow(
    path: Path, descriptor: int, formatter: LogFormatter, ended: asyncio.Event, write: Write
) -> None:
    """`descriptor`: the newest file, which was read to its end; -1 if there was none yet."""
    with ExitStack() as closing:
        while not formatter.is_full:
            is_over = ended.is_set()
            if descriptor >= 0 and await _copy(descriptor, formatter, write):
                continue
            following = _next(path, descriptor)
            if following >= 0:
                # What came between the last look at the old file and its renaming.
                await _copy(descriptor, formatter, write) if descriptor >= 0 else None
                descriptor = following
                closing.callback(os.close, descriptor)
            elif is_over:
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
    """The file after the one that is read, open; -1: that one is still being written."""
    inode = os.fstat(descriptor).st_ino if descriptor >= 0 else 0
    try:
        if path.stat().st_ino == inode:
            return -1
        known = [(each, each.stat().st_ino) for each in files.all_of(path)]
        inodes = [number for _, number in known]
        # A file that is gone was older than all that are left.
        index = inodes.index(inode) + 1 if inode in inodes else 0
        return os.open(known[index][0], os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, IndexError):
        return -1
