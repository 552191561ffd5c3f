"""Reads the node's meters once in an interval, saves what it charges, and reports it: the node's UsageReport in ring0.

A report has the totals of all hours that ring0 has not summed up yet, not what was added to them: to write it twice, or
not at all for a while, changes nothing. Nothing is written while nothing is used.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

from alcove.agent.metering import charges
from alcove.agent.metering.tenant_meter import TenantMeter
from alcove.api import usage
from alcove.api.errors import ApiError, Conflict, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.resources import USAGE_REPORTS
from alcove.dataplane.errors import DataPlaneError

log = logging.getLogger(__name__)

SAMPLE_PARTS = (1 / 12, 1 / 4)
"""The memory is sampled after a random time between these parts of an interval, so that no pod can be small just then."""
REPORT_SECONDS_MAX = 30.0


class UsageReporter:
    def __init__(
        self,
        meter: TenantMeter,
        client: Client,
        node: str,
        path: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._meter = meter
        self._client = client
        self._node = node
        self._path = path
        self._clock = clock
        self.interval_seconds = 60.0
        """A kill of the agent loses at most what was used in one interval."""
        self._report: Object | None = None
        """The node's report as ring0 has it; None if that is not known."""
        self._adopts = meter.charges.is_new

    async def run(self) -> None:
        """Runs until cancelled."""
        if self._meter.charges.is_new:
            # What was used before the record began is not charged: begin it now, not after the first interval.
            await self.read_and_report()
        due = time.monotonic() + self.interval_seconds
        while True:
            await asyncio.sleep(self.interval_seconds * random.uniform(*SAMPLE_PARTS))
            self._meter.sample_memory()
            if time.monotonic() >= due:
                due = time.monotonic() + self.interval_seconds
                await self.read_and_report()

    async def read_and_report(self) -> None:
        try:
            await self._meter.read()
        except (DataPlaneError, OSError) as error:
            log.warning("failed to read the meters; retrying", extra={"error": str(error)})
        await self._save()
        try:
            async with asyncio.timeout(REPORT_SECONDS_MAX):
                await self._write_report()
        except (ApiError, ClientError, TimeoutError, ValueError) as error:
            self._report = None  # It may or may not have been written.
            log.warning("failed to report usage; retrying", extra={"error": str(error)})

    async def _save(self) -> None:
        """Before the report is written: it must not say more than what a restarted agent knows."""
        await asyncio.to_thread(charges.save, self._path, self._meter.charges.encoded())

    async def _write_report(self) -> None:
        report = self._report or await self._fetch()
        reported = usage.decode_hours(report["spec"].get("hours") or {})
        hours = self._meter.charges.hours
        if self._adopts:
            hours.adopt(reported)
            self._adopts = False
        if "uid" not in report["metadata"]:
            hours.forget_closed(self._clock())
        hours.settle(reported, usage.settled_through(report), self._clock())
        encoded = usage.encode_hours(hours.hours)
        if encoded == (report["spec"].get("hours") or {}):
            self._report = report
            return
        await self._save()
        self._report = await self._put(report, encoded)

    async def _fetch(self) -> Object:
        try:
            return await self._client.get(SYSTEM, USAGE_REPORTS, self._node)
        except NotFound:
            return {"metadata": {"name": self._node}, "spec": {}}

    async def _put(self, report: Object, hours: Object) -> Object | None:
        obj = {**report, "spec": {"hours": hours}}
        try:
            if "uid" not in report["metadata"]:
                return await self._client.create(SYSTEM, USAGE_REPORTS, obj)
            return await self._client.update(SYSTEM, USAGE_REPORTS, obj)
        except (Conflict, NotFound):
            return None  # Ring0 has summed up an hour, or deleted the report: with the next interval.
