"""How much of this server's time each tenant takes, reported as any other usage: a UsageReport of this process.

A server that is started again has another report; those of earlier ones are deleted once they are summed up. What was
measured since the last report is lost with a process: at most INTERVAL_SECONDS of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from alcove.api import meta, usage
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, Key, TenantId
from alcove.api.objects import Object
from alcove.api.resources import USAGE_REPORTS
from alcove.api.usage import UsageAmounts
from alcove.api.usage_hours import UsageHours
from alcove.apiserver.services import ApiServerServices
from alcove.store.base import ABSENT, RevisionMismatch, WriteOp

INTERVAL_SECONDS = 60.0
NAME_PREFIX = "apiserver:"
"""No node has such a name."""
_NANOSECONDS = 1e9

Charge = Callable[[TenantId, float], None]


class ApiTimeMeter:
    """Use it from one event loop only."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.name = f"{NAME_PREFIX}{os.urandom(8).hex()}"
        self._clock = clock
        self._seconds: dict[TenantId, float] = {}
        """Since the last report."""
        self._began = clock()
        self._hours = UsageHours({})

    def add(self, tenant: TenantId, seconds: float) -> None:
        """Called for every request."""
        self._seconds[tenant] = self._seconds.get(tenant, 0.0) + seconds

    def counting(self, charge: Charge) -> Charge:
        """As `charge`, and counts the time."""

        def charge_and_count(tenant: TenantId, seconds: float) -> None:
            charge(tenant, seconds)
            self.add(tenant, seconds)

        return charge_and_count

    async def run(self, services: ApiServerServices) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.report(services)

    async def report(self, services: ApiServerServices) -> None:
        self._charge()
        entry = services.cache.entry(Key(USAGE_REPORTS, SYSTEM, "", self.name))
        report = entry.decode() if entry is not None else self._new()
        if entry is None:
            self._hours.forget_closed(self._clock())
        encoded = report["spec"].get("hours") or {}
        self._hours.settle(usage.decode_hours(encoded), usage.settled_through(report), self._clock())
        hours = usage.encode_hours(self._hours.hours)
        if hours == encoded:
            return
        body = encode({**report, "spec": {"hours": hours}})
        key, revision = Key(USAGE_REPORTS, SYSTEM, "", self.name), entry.revision if entry else ABSENT
        try:
            await services.store.write([WriteOp(key, body, revision)])
        except RevisionMismatch:
            pass  # Summed up meanwhile: with the next interval.

    def _charge(self) -> None:
        seconds, self._seconds = self._seconds, {}
        since, self._began = self._began, self._clock()
        for tenant, each in seconds.items():
            amounts = UsageAmounts(api_nanoseconds=round(each * _NANOSECONDS))
            self._hours.charge(tenant, amounts, since, self._began)

    def _new(self) -> Object:
        metadata = {
            "name": self.name,
            "tenant": SYSTEM,
            "uid": meta.new_uid(),
            "creationTimestamp": meta.format_time(self._clock()),
        }
        names = {"apiVersion": "usage.alcove.io/v1alpha1", "kind": "UsageReport"}
        return {**names, "metadata": metadata, "spec": {}}
