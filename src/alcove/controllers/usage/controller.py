"""Sums up what nodes and API servers report: one UsageRecord in ring0 for each tenant and day, with its hours.

An open hour's record is what the reports say now: to sum up twice changes nothing. Some time after its end an hour is
settled: that is noted first, then the reporters are told, who leave it out from then on. After a kill in between, the note
keeps the hour's record from being computed from fewer reports.

Records are read and written only for tenants whose sums have changed since the last time. A tenant that is being deleted
gets an empty record: records are made for tenants that exist, since a node could make up names, and what it has used is
summed up into that one later, with everybody's. If it is still empty some time after its day was settled, it is deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import msgspec

from alcove.api import objects, usage
from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.api.usage import UsageAmounts
from alcove.api.usage_hours import LATE_SECONDS
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import CONFIG_MAPS, TENANTS, USAGE_RECORDS, USAGE_REPORTS, Resource
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_if_unchanged
from alcove.controllers.usage import sums
from alcove.controllers.usage.sums import RecordKey

WRITES_MAX = 16
"""Records that are written at the same time."""
NOTE, NOTE_NAMESPACE = "alcove-usage", "kube-system"
"""The ConfigMap that says which hours are settled."""
_SETTLED = "settledThrough"
_ALL_KEY = ObjectKey(HOME, SYSTEM, "", "all")
"""To sum up; no tenant has this name. Other keys name a tenant that is being deleted."""


class UsageController(Controller):
    name = "usage"
    is_ring0 = True
    resource = USAGE_REPORTS
    workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._tenants = self.mirror(TENANTS, tenant=SYSTEM, only=HOME)
        self._nodes = self.nodes()
        self._settled: int | None = None
        self._sum_at = 0.0
        self._expired_day = self._totals_day = ""
        self._summed: dict[RecordKey, int] = {}
        """Hashes of the sums that records have, for hours that are not settled."""
        self._deleted: set[str] = set()
        """Tenants that are being deleted, and were enqueued for it."""
        reports = self.mirror(USAGE_REPORTS, tenant=SYSTEM, only=HOME, metadata_only=True)
        self.on(reports, lambda _change: (_ALL_KEY,))
        self.on(self._tenants, self._note_tenant)

    @property
    def _client(self) -> Client:
        return self.context.planes.client(HOME)

    def _note_tenant(self, change: ObjectChange) -> Iterable[ObjectKey]:
        tenant = change.key.name
        if change.kind is ChangeType.DELETED:
            self.context.metrics.usage.pop(tenant, None)
            self._deleted.discard(tenant)
        elif "deletionTimestamp" in change.obj["metadata"] and tenant not in self._deleted:
            self._deleted.add(tenant)
            yield change.key

    async def reconcile(self, key: ObjectKey) -> Result:
        if key != _ALL_KEY:
            await self._begin_records(key.name)
            return DONE
        wait = self._sum_at - self.clock()
        if wait > 0:
            return Result(after_seconds=wait)
        self._sum_at = self.clock() + self.context.options.usage_interval_seconds
        try:
            await self._sum_up()
        except BaseException:
            self._sum_at = 0.0
            raise
        return Result(after_seconds=max(0.0, self._sum_at - self.clock()))

    async def _sum_up(self) -> None:
        if self._settled is None:
            self._settled = await self._read_note()
        # Listed, not mirrored: a mirror may be behind, and what it lacks would be missing for good.
        reports = await self._client.list(SYSTEM, USAGE_REPORTS)
        records = await self._write_records(reports)
        await self._settle(reports)
        await self._expire()
        self._update_metrics(records)

    # Records

    async def _begin_records(self, tenant: str) -> None:
        """Creates the records that a tenant may lack for what it has used since the last time they were written."""
        now = self.clock()
        since = now - self.context.options.usage_interval_seconds - LATE_SECONDS
        for day in {usage.day_of(usage.hour_of(since)), usage.day_of(usage.hour_of(now))}:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(SYSTEM, USAGE_RECORDS, sums.new_record(tenant, day))

    async def _write_records(self, reports: list[Object]) -> list[Object]:
        """The records of hours that are not settled, of those whose sums have changed."""
        assert self._settled is not None
        pending = sums.sum_up(reports, self._settled)
        changed = [each for each in pending.items() if self._summed.get(each[0]) != _hash(each[1])]
        records: list[Object | None] = []
        for start in range(0, len(changed), WRITES_MAX):
            batch = changed[start : start + WRITES_MAX]
            records += await gather_all(self._write_record(key, hours) for key, hours in batch)
        self._summed = {key: each for key, each in self._summed.items() if key in pending}
        return [record for record in records if record is not None]

    async def _write_record(self, key: RecordKey, hours: dict[int, UsageAmounts]) -> Object | None:
        tenant, day = key
        try:
            stored = await self._client.get(SYSTEM, USAGE_RECORDS, usage.record_name(tenant, day))
        except NotFound:
            if not self._exists(tenant):
                return None  # A node could make up names.
            stored = sums.new_record(tenant, day)
        record = sums.with_hours(stored, hours)
        if "uid" not in stored["metadata"]:
            record = await self._client.create(SYSTEM, USAGE_RECORDS, record)
        elif record["spec"] != stored["spec"]:
            record = await self._client.update(SYSTEM, USAGE_RECORDS, record)
        self._summed[key] = _hash(hours)
        return record

    def _exists(self, tenant: str) -> bool:
        return self._tenants.get(ObjectKey(HOME, SYSTEM, "", tenant)) is not None

    def _update_metrics(self, records: list[Object]) -> None:
        """`records` has those that have changed."""
        today = usage.day_of(usage.hour_of(self.clock()))
        totals = self.context.metrics.usage if today == self._totals_day else {}
        totals |= sums.day_totals(records, today)
        self.context.metrics.usage = {tenant: each for tenant, each in totals.items() if self._exists(tenant)}
        self._totals_day = today

    # Settling

    async def _settle(self, reports: list[Object]) -> None:
        assert self._settled is not None
        due = sums.last_due(self.clock())
        if due > self._settled:
            await self._write_note(due)
            self._settled = due
        nodes = {key.name for key in self._nodes.keys(HOME, SYSTEM)}
        for report in reports:
            name = objects.name(report)
            if sums.is_finished(report, self._settled, nodes):
                await self._delete(USAGE_REPORTS, report)
            elif sums.is_unsettled(report, self._settled):
                status = {"status": {_SETTLED: usage.format_hour(self._settled)}}
                await self._client.patch(SYSTEM, USAGE_REPORTS, name, status, subresource="status")

    async def _read_note(self) -> int:
        try:
            note = await self._client.get(SYSTEM, CONFIG_MAPS, NOTE, namespace=NOTE_NAMESPACE)
        except NotFound:
            metadata = {"name": NOTE, "namespace": NOTE_NAMESPACE}
            note = await self._client.create(SYSTEM, CONFIG_MAPS, {"metadata": metadata, "data": {}})
        text = objects.get(note, "data", _SETTLED, default="")
        return usage.parse_hour(text) if text else -1

    async def _write_note(self, hour: int) -> None:
        data = {"data": {_SETTLED: usage.format_hour(hour)}}
        await self._client.patch(SYSTEM, CONFIG_MAPS, NOTE, data, namespace=NOTE_NAMESPACE)

    # Retention

    async def _expire(self) -> None:
        """Deletes records that are older than the retention, and empty ones of days that are settled, once a day."""
        assert self._settled is not None
        today = usage.day_of(usage.hour_of(self.clock()))
        if self._expired_day == today:
            return
        listed = await self._client.list(SYSTEM, USAGE_RECORDS, metadata_only=True)
        records = {objects.name(each): each for each in listed}
        retention_days = self.context.options.usage_retention_days
        for name in sums.expired(records.values(), self.clock(), retention_days, self._settled):
            await self._delete(USAGE_RECORDS, records[name])
        self._expired_day = today

    async def _delete(self, resource: Resource, obj: Object) -> None:
        key = ObjectKey(HOME, SYSTEM, "", objects.name(obj))
        await delete_if_unchanged(self._client, resource, key, obj["metadata"])


def _hash(hours: dict[int, UsageAmounts]) -> int:
    return hash(msgspec.json.encode(hours))
