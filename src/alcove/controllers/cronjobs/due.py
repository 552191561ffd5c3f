"""The schedule of a cron job: its latest due time, the number of missed times, the next time. Pure."""

from __future__ import annotations

from datetime import UTC, tzinfo

from msgspec import Struct

from alcove.api import cron, meta
from alcove.api.objects import Object, get

MISSED_MAX = 100
"""Missed times are not counted beyond this; so many indicate clock skew or a wrong deadline."""


class DueRun(Struct, frozen=True):
    last: float | None
    """The latest scheduled time up to now for which no job was started. None if nothing is due."""
    next: float | None
    """The next scheduled time. None if there is none."""
    missed: int = 0
    """Earlier scheduled times for which no job was started, up to MISSED_MAX."""


def zone(cron_job: Object) -> tzinfo:
    """Raises CronError for an unknown time zone."""
    name = get(cron_job, "spec", "timeZone")
    return cron.load_zone(name) if name else UTC


def due(cron_job: Object, now: float) -> DueRun:
    """Raises CronError for an invalid schedule or time zone."""
    schedule, time_zone = cron.parse(cron_job["spec"]["schedule"]), zone(cron_job)
    last_scheduled = get(cron_job, "status", "lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
    since = meta.parse_time(last_scheduled)
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - deadline)
    if isinstance(schedule, cron.Every):
        return _every(schedule.seconds, meta.parse_time(last_scheduled), since, now)
    first = schedule.next_after(since, time_zone)
    following = schedule.next_after(now, time_zone)
    if first is None or first > now:
        return DueRun(None, following)
    last = schedule.last(since, now, time_zone)
    return DueRun(last, following, _missed(schedule, time_zone, first, now))


def _every(seconds: int, last_scheduled: float, since: float, now: float) -> DueRun:
    """`@every` intervals count from the last scheduled time, or from the creation of the cron job."""
    intervals = int((now - last_scheduled) // seconds)
    last = last_scheduled + intervals * seconds
    following = last + seconds
    if intervals < 1 or last < since:
        return DueRun(None, following)
    return DueRun(last, following, min(intervals - 1, MISSED_MAX))


def _missed(schedule: cron.Schedule, time_zone: tzinfo, first: float, now: float) -> int:
    count, at = 0, schedule.next_after(first, time_zone)
    while at is not None and at <= now and count < MISSED_MAX:
        count, at = count + 1, schedule.next_after(at, time_zone)
    return count
