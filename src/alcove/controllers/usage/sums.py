"""The sums of reports, and what is to be done with reports and records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from alcove.api import objects, usage
from alcove.api.objects import Object
from alcove.api.usage import DAY_HOURS, TenantAmounts, UsageAmounts, day_of
from alcove.api.usage_hours import is_due

API_SERVER_PREFIX = "apiserver:"
EMPTY_LABEL = "usage.alcove.io/empty"
"""On records that have no hours yet."""

RecordKey = tuple[str, str]
"""Tenant and day."""


def hours_of(report: Object) -> dict[int, TenantAmounts]:
    """Empty if the report is not valid: an older server may have stored it."""
    try:
        return usage.decode_hours(objects.get(report, "spec", "hours", default={}))
    except ValueError:
        return {}


def sum_up(reports: Iterable[Object], settled: int) -> dict[RecordKey, dict[int, UsageAmounts]]:
    """The amounts of the hours after `settled`, of all reports together."""
    sums: dict[RecordKey, dict[int, UsageAmounts]] = {}
    for report in reports:
        for hour, tenants in hours_of(report).items():
            if hour <= settled:
                continue
            for tenant, amounts in tenants.items():
                hours = sums.setdefault((tenant, day_of(hour)), {})
                hours.setdefault(hour, UsageAmounts()).add(amounts)
    return sums


def with_hours(record: Object, hours: Mapping[int, UsageAmounts]) -> Object:
    """The record with these hours; others stay as they are."""
    spec = record["spec"]
    new = {usage.format_hour(hour): msgspec.to_builtins(amounts) for hour, amounts in sorted(hours.items())}
    labels = {name: value for name, value in objects.labels(record).items() if name != EMPTY_LABEL}
    metadata = {**record["metadata"], "labels": labels}
    return {**record, "metadata": metadata, "spec": {**spec, "hours": {**(spec.get("hours") or {}), **new}}}


def new_record(tenant: str, day: str) -> Object:
    metadata = {"name": usage.record_name(tenant, day), "labels": {EMPTY_LABEL: "true"}}
    return {"metadata": metadata, "spec": {"tenant": tenant, "hours": {}}}


def last_due(now: float) -> int:
    """The last hour that may be settled."""
    hour = usage.hour_of(now)
    while not is_due(hour, now):
        hour -= 1
    return hour


def is_unsettled(report: Object, settled: int) -> bool:
    """Whether the report has hours that are summed up, and is not told so."""
    return usage.settled_through(report) < settled and any(hour <= settled for hour in hours_of(report))


def is_finished(report: Object, settled: int, nodes: Iterable[str]) -> bool:
    """Whether nothing more comes of the report: its reporter is gone, or has nothing, and has been told so since an earlier
    hour."""
    name, told = objects.name(report), usage.settled_through(report)
    is_reporter_gone = name.startswith(API_SERVER_PREFIX) or name not in nodes
    return is_reporter_gone and told < settled and all(hour <= told for hour in hours_of(report))


def expired(records: Iterable[Object], now: float, retention_days: int, settled: int) -> Iterator[str]:
    """The names of the records of days that are longer ago than the retention, and of empty ones whose day is settled."""
    first, first_open = day_of(usage.hour_of(now) - retention_days * DAY_HOURS), day_of(settled + 1)
    for record in records:
        name = objects.name(record)
        day = name.rpartition(".")[2]
        if day < first or (day < first_open and EMPTY_LABEL in objects.labels(record)):
            yield name


def day_totals(records: Iterable[Object], day: str) -> dict[str, UsageAmounts]:
    """What each tenant has used on a day, by the records of that day among these."""
    totals: dict[str, UsageAmounts] = {}
    for record in records:
        if objects.name(record).rpartition(".")[2] == day:
            total = totals.setdefault(record["spec"]["tenant"], UsageAmounts())
            for amounts in record["spec"]["hours"].values():
                total.add(msgspec.convert(amounts, UsageAmounts))
    return totals
