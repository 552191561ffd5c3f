"""When a cron job is due: which time was the last, how many were missed, when is the next. Pure."""

from __future__ import annotations

from datetime import UTC, tzinfo

from msgspec import Struct

from alcove.api import cron, meta
from alcove.api.objects import Object, get

MISSED_MAX = 100
"""Counted no further: more than that means that a clock or a deadline is wrong."""


class DueRun(Struct, frozen=True):
    last: float | None
    """The latest time that has come and was not served; None: nothing is due."""
    next: float | None
    """None: never again."""
    missed: int = 0
    """Times before the last that were not served either, up to MISSED_MAX."""


def zone(cron_job: Object) -> tzinfo:
    """Raises CronError."""
    name = get(cron_job, "spec", "timeZone")
    return cron.load_zone(name) if name else UTC


def due(cron_job: Object, now: float) -> DueRun:
    """Raises CronError for a schedule or zone that cannot be read."""
    schedule, place = cron.parse(cron_job["spec"]["schedule"]), zone(cron_job)
    served = get(cron_job, "status", "lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
    since = meta.parse_time(served)
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - deadline)
    if isinstance(schedule, cron.Every):
        return _every(schedule.seconds, meta.parse_time(served), since, now)
    first = schedule.next_after(since, place)
    following = schedule.next_after(now, place)
    if first is None or first > now:
        return DueRun(None, following)
    return DueRun(_last(schedule, place, first, now), following, _missed(schedule, place, first, now))


def _every(seconds: int, served: float, since: float, now: float) -> DueRun:
    """Counted from the last time served, or from the beginning."""
    turns = int((now - served) // seconds)
    last = served + turns * seconds
    following = last + seconds
    if turns < 1 or last < since:
        return DueRun(None, following)
    return DueRun(last, following, min(turns - 1, MISSED_MAX))


def _last(schedule: cron.Schedule, place: tzinfo, first: float, now: float) -> float:
    """The latest time up to now, by halving: years of missed minutes cost a few dozen questions."""
    low, high = int(first) - 1, int(now)
    # The next time after `low` has come, the next after `high` has not.
    while high - low > 1:
        middle = (low + high) // 2
        found = schedule.next_after(middle, place)
        if found is not None and found <= now:
            low = middle
        else:
            high = middle
    last = schedule.next_after(low, place)
    assert last is not None
    return last


def _missed(schedule: cron.Schedule, place: tzinfo, first: float, now: float) -> int:
    count, at = 0, schedule.next_after(first, place)
    while at is not None and at <= now and count < MISSED_MAX:
        count, at = count + 1, schedule.next_after(at, place)
    return count
