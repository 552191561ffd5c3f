"""list of sight.alcove.io/tenantusages: what tenants have used, from ring0's records of it.

A tenant sees its own, whatever it does to its objects: the records are in ring0, where tenants can write nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import msgspec
from msgspec import Struct

from alcove.api import meta, usage
from alcove.api.encode import encode
from alcove.api.errors import BadRequest
from alcove.api.ids import SYSTEM, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.resources import USAGE_RECORDS
from alcove.api.usage import DAY_HOURS, HOUR_SECONDS, UsageAmounts
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.render import render_list
from alcove.apiserver.resources.options import list_options
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse

STEPS = ("hour", "day", "total")
DAYS_MAX = 400
"""Days that one request can be about."""
LIMIT_DEFAULT, LIMIT_MAX = 1_000, 10_000
_DAY_SECONDS = DAY_HOURS * HOUR_SECONDS

UsageKey = tuple[str, int]
"""Tenant, and the first hour of the step."""


class UsageQuery(Struct, frozen=True):
    first: int
    """The first hour, and the one after the last, since the epoch."""
    end: int
    step: str

    def days(self) -> Iterator[str]:
        for day in range(self.first // DAY_HOURS, -(-self.end // DAY_HOURS)):
            yield usage.day_of(day * DAY_HOURS)

    def start_of(self, hour: int) -> int:
        """The first hour of the step that the hour is in."""
        if self.step == "total":
            return self.first
        return hour if self.step == "hour" else max(self.first, hour // DAY_HOURS * DAY_HOURS)

    def end_of(self, start: int) -> int:
        if self.step == "total":
            return self.end
        return start + 1 if self.step == "hour" else min(self.end, (start // DAY_HOURS + 1) * DAY_HOURS)


class UsagesApi:
    def __init__(self, services: ApiServerServices, clock: Callable[[], float] = time.time) -> None:
        self._services = services
        self._clock = clock

    async def answer(self, call: ApiCall) -> HttpResponse:
        query = usage_query(call.query, self._clock())
        limit = min(list_options(call).limit or LIMIT_DEFAULT, LIMIT_MAX)
        records, revision = list(self._records(call.list_tenant, query)), self._services.cache.revision
        # Records of many hours or tenants take some time to decode, and to render.
        rendered = partial(_rendered, call, query, records, limit, revision)
        response: HttpResponse = await self._services.threads.run(call.identity.tenant, rendered)
        return response

    def _records(self, tenant: TenantId | None, query: UsageQuery) -> Iterator[CacheEntry]:
        cache, days = self._services.cache, set(query.days())
        if tenant is None:
            entries = cache.entries(SYSTEM, USAGE_RECORDS)
            yield from (entry for entry in entries if entry.key.name.rpartition(".")[2] in days)
            return
        for day in days:
            entry = cache.entry(Key(USAGE_RECORDS, SYSTEM, "", usage.record_name(tenant, day)))
            if entry is not None:
                yield entry


def _rendered(
    call: ApiCall, query: UsageQuery, records: Iterable[CacheEntry], limit: int, revision: Revision
) -> HttpResponse:
    rows = sorted(sum_up(records, query).items())
    entries = [_entry(call, query, key, amounts, revision) for key, amounts in rows[:limit]]
    more: Object = {"remainingItemCount": len(rows) - limit} if len(rows) > limit else {}
    return HttpResponse(200, render_list(call.view, entries, revision, more), call.view.content_type)


def _entry(
    call: ApiCall, query: UsageQuery, key: UsageKey, amounts: UsageAmounts, revision: Revision
) -> CacheEntry:
    tenant, start = key
    begin, end = (meta.format_time(hour * HOUR_SECONDS) for hour in (start, query.end_of(start)))
    name = f"{tenant}.{begin[: 13 if query.step == 'hour' else 10].lower()}"
    metadata: Object = {"name": name, "tenant": tenant, "creationTimestamp": begin}
    obj: Object = {
        "apiVersion": call.kind.api_version,
        "kind": call.kind.kind,
        "metadata": metadata,
        "start": begin,
        "end": end,
        "amounts": msgspec.to_builtins(amounts),
    }
    object_key = Key(call.kind.group_resource, TenantId(tenant), "", name)
    return CacheEntry(object_key, revision, encode(obj))


def usage_query(query: Mapping[str, str], now: float) -> UsageQuery:
    """From `from`, `to` (times in RFC 3339 or days) and `step`; without times, the last 24 hours. Raises BadRequest."""
    step = query.get("step") or "hour"
    if step not in STEPS:
        raise BadRequest(f'invalid step "{step}": must be one of {", ".join(STEPS)}')
    end = _time(query.get("to", ""), "to") if query.get("to") else now
    start = _time(query.get("from", ""), "from") if query.get("from") else end - _DAY_SECONDS
    if not start < end:
        raise BadRequest('invalid time: "from" must be before "to"')
    if end - start > DAYS_MAX * _DAY_SECONDS:
        raise BadRequest(f"invalid time: must be at most {DAYS_MAX} days")
    return UsageQuery(usage.hour_of(start), -(-int(end) // HOUR_SECONDS), step)


def _time(text: str, name: str) -> float:
    try:
        seconds = meta.parse_time(text if "T" in text else f"{text}T00:00:00Z")
    except ValueError as error:
        raise BadRequest(
            f'invalid {name} "{text[:64]}": must be a time such as 2026-11-16T14:00:00Z'
        ) from error
    if not 0 <= seconds < 2**40:
        raise BadRequest(f'invalid {name} "{text[:64]}": out of range')
    return seconds


def sum_up(records: Iterable[CacheEntry], query: UsageQuery) -> dict[UsageKey, UsageAmounts]:
    """The amounts of each tenant and step. Pure."""
    totals: dict[UsageKey, UsageAmounts] = {}
    for record in records:
        spec = record.object["spec"]
        for text, amounts in (spec.get("hours") or {}).items():
            hour = usage.parse_hour(text)
            if query.first <= hour < query.end:
                key = spec["tenant"], query.start_of(hour)
                totals.setdefault(key, UsageAmounts()).add(msgspec.convert(amounts, UsageAmounts))
    return totals
