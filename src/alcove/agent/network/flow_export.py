"""Exports the flows of all tenants on the node: every EXPORT_SECONDS each flow that has had packets since, with its totals so far.

The file of JSON lines is for log collectors. It is bounded: when it is full it becomes FILE.1, in the place of an older one. What a
collector has not read by then is lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from alcove.agent.network.flow_changes import FlowChanges
from alcove.api import meta
from alcove.api.node_api import FlowReport
from alcove.dataplane.errors import DataPlaneError

log = logging.getLogger(__name__)

EXPORT_SECONDS = 10.0
OVERLAP_SECONDS = 3.0
"""The kernel's times are exact to about a second."""
FILE_BYTES_MAX = 64 << 20
WRITTEN_KEPT_MAX = 50_000
"""Flows of which it is remembered what was written; of more, the oldest may be written again."""

ReadFlows = Callable[[float], Awaitable[Sequence[FlowReport]]]
"""Flows with packets since a time (epoch seconds)."""
WriteFlows = Callable[[Sequence[FlowReport]], Awaitable[None]]


class FlowExporter:
    def __init__(
        self, read: ReadFlows, write: Sequence[WriteFlows], clock: Callable[[], float] = time.time
    ) -> None:
        """Flows are read once, and passed to each of `write`."""
        self._read = read
        self._write = write
        self._clock = clock
        self._since = clock()
        self._changes = FlowChanges(WRITTEN_KEPT_MAX, with_growth=True)

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(EXPORT_SECONDS)
            try:
                await self.export()
            except (DataPlaneError, OSError) as error:
                log.warning("failed to read flows for their export; retrying", extra={"error": str(error)})

    async def export(self) -> None:
        """Writes what has changed since the last call."""
        now = self._clock()
        changed = self._changes.of(await self._read(self._since - OVERLAP_SECONDS))
        self._since = now
        for write in self._write if changed else ():
            try:
                await write(changed)
            except OSError as error:
                extra = {"error": str(error), "flows": len(changed)}
                log.warning("failed to export flows; they are left out", extra=extra)


class JsonLinesFile:
    def __init__(self, node: str, path: Path) -> None:
        self._node = node
        self._path = path

    async def write(self, flows: Sequence[FlowReport]) -> None:
        """Raises OSError."""
        await asyncio.to_thread(lambda: append(self._path, b"".join(map(self._line, flows))))

    def _line(self, flow: FlowReport) -> bytes:
        times = {"start": meta.format_time(flow.start), "end": meta.format_time(flow.end)}
        return msgspec.json.encode({"node": self._node, **msgspec.to_builtins(flow), **times}) + b"\n"


def append(path: Path, lines: bytes) -> None:
    """Appends to the file, which only its owner can read; renames it first if it is full. Blocks."""
    try:
        if path.stat().st_size + len(lines) > FILE_BYTES_MAX:
            path.replace(path.with_name(f"{path.name}.1"))
    except FileNotFoundError:
        pass
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(lines)
