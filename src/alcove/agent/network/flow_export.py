"""Exports the flows of all tenants on the node: each connection within a second or so of its opening, and every TOTALS_SECONDS
what has had more packets since, with its totals so far.

Connections come from the rings that streams read too (`flow_follower.py`), so also those that leave the kernel's tables at once
are exported. What is too much is left out and counted.

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
from typing import Protocol

import msgspec
from msgspec.structs import replace

from alcove.agent.network.flow_changes import FlowChanges
from alcove.agent.server.flow_stream import FOLLOW_SECONDS, FlowFollower, poll_for
from alcove.api import meta
from alcove.api.node_api import FlowReport, NodeFlows
from alcove.dataplane.errors import DataPlaneError

log = logging.getLogger(__name__)

TOTALS_SECONDS = 10.0
OVERLAP_SECONDS = 3.0
"""The kernel's times are exact to about a second."""
OPENED_MAX = 5_000
"""New flows of all networks together that are exported at a time, about each second."""
FILE_BYTES_MAX = 64 << 20
WRITTEN_KEPT_MAX = 50_000
"""Flows of which it is remembered what was written; of more, the oldest may be written again."""

ReadFlows = Callable[[float], Awaitable[NodeFlows]]
"""Flows with packets since a time (epoch seconds)."""


class FlowSink(Protocol):
    """Where flows are exported to."""

    sent: int
    dropped: int
    """Flows that were lost here."""

    async def offer(self, flows: Sequence[FlowReport]) -> None:
        """Takes flows, or counts them as dropped."""


class FlowExporter:
    def __init__(
        self,
        follower: FlowFollower,
        read: ReadFlows,
        sinks: Sequence[FlowSink],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Flows are read once for all sinks: new ones from `follower`, the totals of known ones by `read`."""
        self._follower = follower
        self._read = read
        self._sinks = sinks
        self._clock = clock
        self._since = clock()
        self._changes = FlowChanges(WRITTEN_KEPT_MAX, with_growth=True)
        self._lost = 0
        """Those of which no flow tells yet."""
        self.left_out = 0
        """Flows that came to no sink: there were too many."""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            try:
                await self.export_new()
                if self._clock() >= self._since + TOTALS_SECONDS:
                    await self.export_totals()
            except (DataPlaneError, OSError) as error:
                log.warning("failed to read flows for their export; retrying", extra={"error": str(error)})
            await poll_for(self._follower, FOLLOW_SECONDS)

    async def export_new(self) -> None:
        """Exports the connections that were opened since the last call, and kinds of drops that were not known."""
        found = await self._follower.read()
        self._count(found.left_out)
        await self._offer(self._changes.new(found.flows))

    async def export_totals(self) -> None:
        """Exports what has had more packets since the last call."""
        now = self._clock()
        found = await self._read(self._since - OVERLAP_SECONDS)
        self._since = now
        self._count(found.left_out)
        await self._offer(self._changes.of(found.flows))

    def _count(self, left_out: int) -> None:
        self._lost += left_out
        self.left_out += left_out

    async def _offer(self, flows: Sequence[FlowReport]) -> None:
        if not flows:
            return
        lost, self._lost = self._lost, 0
        told = [replace(flows[0], lost=lost), *flows[1:]]
        for sink in self._sinks:
            await sink.offer(told)


class JsonLinesFile:
    def __init__(self, node: str, path: Path) -> None:
        self._node = node
        self._path = path
        self.sent = 0
        self.dropped = 0

    async def offer(self, flows: Sequence[FlowReport]) -> None:
        """Flows that cannot be written are dropped: the file is not waited for."""
        try:
            await asyncio.to_thread(lambda: append(self._path, b"".join(map(self._line, flows))))
        except OSError as error:
            self.dropped += len(flows)
            extra = {"error": str(error), "flows": len(flows)}
            log.warning("failed to write flows to their file; they are left out", extra=extra)
        else:
            self.sent += len(flows)

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
