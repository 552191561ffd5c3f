"""Sums up what nodes and API servers report: one UsageRecord in ring0 for each tenant and day, with its hours.

An open hour's record is what the reports say now: to sum up twice changes nothing. Some time after its end an hour is
settled: that is noted first, then the reporters are told, who leave it out from then on. After a kill in between, the note
keeps the hour's record from being computed from fewer reports.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects, usage
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import CONFIG_MAPS, TENANTS, USAGE_RECORDS, USAGE_REPORTS, Resource
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_if_unchanged
from alcove.controllers.usage import sums
from alcove.controllers.usage.sums import RecordKey

SUM_SECONDS = 300.0
"""How often records are written, at most."""
GONE_SECONDS = 6 * 3600.0
"""So long after its deletion a tenant can still get a record of its last hours."""
WRITES_MAX = 16
"""Records that are written at the same time."""
NOTE, NOTE_NAMESPACE = "alcove-usage", "kube-system"
"""The ConfigMap that says which hours are settled."""
_SETTLED = "settledThrough"
_ONE_KEY = ObjectKey(HOME, SYSTEM, "", "all")


class UsageController(Controller):
    name = "usage"
    resource = USAGE_REPORTS
    workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._tenants = self.mirror(TENANTS, tenant=SYSTEM, only=HOME)
        self._nodes = self.nodes()
        self._gone: dict[str, float] = {}
        """When tenants were deleted whose last hours are still to be summed up."""
        self._records: dict[RecordKey, Object] = {}
        """Of days that are not settled, as they are in the store."""
        self._settled: int | None = None
        self._sum_at = 0.0
        self._expired_day = ""
        reports = self.mirror(USAGE_REPORTS, tenant=SYSTEM, only=HOME, metadata_only=True)
        self.on(reports, lambda _change: (_ONE_KEY,))
        self.on(self._tenants, self._note_tenant)

    @property
    def _client(self) -> Client:
        return self.context.planes.client(HOME)

    def _note_tenant(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is ChangeType.DELETED:
            self._gone[change.key.name] = self.clock()
        return ()

    async def reconcile(self, key: ObjectKey) -> Result:
        wait = self._sum_at - self.clock()
        if wait > 0:
            return Result(after_seconds=wait)
        if self._settled is None:
            self._settled = await self._read_note()
        # Listed, not mirrored: a mirror may be behind, and what it lacks would be missing for good.
        reports = await self._client.list(SYSTEM, USAGE_REPORTS)
        await self._write_records(reports)
        await self._settle(reports)
        await self._expire()
        self.context.metrics.usage = sums.day_totals(self._records, usage.day_of(usage.hour_of(self.clock())))
        self._sum_at = self.clock() + SUM_SECONDS
        return Result(after_seconds=SUM_SECONDS)

    # Records

    async def _write_records(self, reports: list[Object]) -> None:
        assert self._settled is not None
        pending = list(sums.sum_up(reports, self._settled).items())
        for start in range(0, len(pending), WRITES_MAX):
            batch = pending[start : start + WRITES_MAX]
            await gather_all(self._write_record(key, hours) for key, hours in batch)

    async def _write_record(self, key: RecordKey, hours: dict[int, usage.UsageAmounts]) -> None:
        tenant, day = key
        stored = self._records.get(key)
        if stored is None:
            try:
                stored = await self._client.get(SYSTEM, USAGE_RECORDS, usage.record_name(tenant, day))
            except NotFound:
                # A node could make up names.
                if (
                    tenant not in self._gone
                    and self._tenants.get(ObjectKey(HOME, SYSTEM, "", tenant)) is None
                ):
                    return
                stored = sums.new_record(tenant, day)
        record = sums.with_hours(stored, hours)
        if record["spec"] != stored["spec"] or "uid" not in stored["metadata"]:
            is_new = "uid" not in stored["metadata"]
            write = self._client.create if is_new else self._client.update
            self._records.pop(key, None)  # If the write fails, it has to be read again.
            stored = await write(SYSTEM, USAGE_RECORDS, record)
        self._records[key] = stored

    # Settling

    async def _settle(self, reports: list[Object]) -> None:
        assert self._settled is not None
        due = sums.last_due(self.clock())
        if due > self._settled:
            await self._write_note(due)
            self._settled = due
            open_days = {usage.day_of(due), usage.day_of(due + 1), usage.day_of(usage.hour_of(self.clock()))}
            self._records = {key: each for key, each in self._records.items() if key[1] in open_days}
            oldest = self.clock() - GONE_SECONDS
            self._gone = {tenant: at for tenant, at in self._gone.items() if at > oldest}
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
        """Deletes records that are older than the retention, once a day."""
        today = usage.day_of(usage.hour_of(self.clock()))
        if self._expired_day == today:
            return
        listed = await self._client.list(SYSTEM, USAGE_RECORDS, metadata_only=True)
        records = {objects.name(each): each for each in listed}
        for name in sums.expired(records, self.clock(), self.context.options.usage_retention_days):
            await self._delete(USAGE_RECORDS, records[name])
        self._expired_day = today

    async def _delete(self, resource: Resource, obj: Object) -> None:
        key = ObjectKey(HOME, SYSTEM, "", objects.name(obj))
        await delete_if_unchanged(self._client, resource, key, obj["metadata"])
