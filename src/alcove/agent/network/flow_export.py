"""Writes the flows of all tenants on the node to a file, one JSON object on each line, for log collectors.

Every EXPORT_SECONDS, each flow that has had packets since is written once, with its totals so far. The file is bounded: when
it is full it becomes FILE.1, in the place of an older one. What a collector has not read by then is lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import msgspec

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
_FlowKey = tuple[object, ...]


class FlowExporter:
    def __init__(
        self, read: ReadFlows, node: str, path: Path, clock: Callable[[], float] = time.time
    ) -> None:
        self._read = read
        self._node = node
        self._path = path
        self._clock = clock
        self._since = clock()
        self._written: dict[_FlowKey, tuple[float, int]] = {}
        """Start and number of packets of each flow, as last written."""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(EXPORT_SECONDS)
            try:
                await self.export()
            except (DataPlaneError, OSError) as error:
                log.warning("failed to export flows; retrying", extra={"error": str(error)})

    async def export(self) -> None:
        """Writes what has changed since the last call."""
        now = self._clock()
        changed = self._changed(await self._read(self._since - OVERLAP_SECONDS))
        lines = b"".join(self._line(flow) for flow in changed)
        if lines:
            await asyncio.to_thread(append, self._path, lines)
        self._since = now

    def _changed(self, flows: Iterable[FlowReport]) -> list[FlowReport]:
        changed = []
        for flow in sorted(flows, key=lambda each: each.end):
            key, state = _key(flow), (flow.start, flow.packets_sent + flow.packets_received)
            if self._written.pop(key, None) != state:
                changed.append(flow)
            self._written[key] = state
        while len(self._written) > WRITTEN_KEPT_MAX:
            del self._written[next(iter(self._written))]
        return changed

    def _line(self, flow: FlowReport) -> bytes:
        times = {"start": meta.format_time(flow.start), "end": meta.format_time(flow.end)}
        return msgspec.json.encode({"node": self._node, **msgspec.to_builtins(flow), **times}) + b"\n"


def _key(flow: FlowReport) -> _FlowKey:
    ends = (flow.source.address, flow.source.port, flow.destination.address, flow.destination.port)
    return (flow.tenant, flow.network, flow.protocol, flow.verdict, flow.reason, *ends)


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
