"""Whether a tenant sleeps now, why, and when that may change. Pure.

A tenant that is deleted, and has to be saved with the files in its volumes before, is awake. `spec.sleep.asleep` decides alone if it is set. Otherwise the latest of these events decides:

| event                                          | the tenant   |
|------------------------------------------------|--------------|
| a time of `schedule.sleep`                     | falls asleep |
| a time of `schedule.wake`                      | wakes        |
| `wakeTime`                                     | wakes        |
| the last request, if `afterInactivity` is set  | wakes        |
| `afterInactivity` after the latest of the two  | falls asleep |
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo

from msgspec import Struct

from alcove.api import cron, meta
from alcove.api.kinds.core.backups import reads_volumes_before_delete
from alcove.api.kinds.core.sleep import inactivity_seconds, sleep_of
from alcove.api.objects import Object, get

LOOKBACK_SECONDS = (3600.0, 86_400.0, 32 * 86_400.0, 367 * 86_400.0)
"""How far to look for the latest time of a schedule, in steps: most have one every day. An older one does not count."""


CLAIMS_PER_INTERVAL = 20
"""How often a dedicated plane's word of its users' activity counts within `spec.sleep.afterInactivity`, at most."""


class SleepDecision(Struct, frozen=True):
    is_asleep: bool
    reason: str
    message: str
    next_change: float | None = None
    """When the decision may change by itself, in epoch seconds. None if it does not."""


class _SleepEvent(Struct, frozen=True, order=True):
    at: float
    is_asleep: bool
    reason: str
    message: str


def decide(tenant: Object, now: float) -> SleepDecision:
    """Raises CronError for a schedule that validation would reject."""
    sleep = sleep_of(tenant)
    if reads_volumes_before_delete(tenant):
        return SleepDecision(False, "Deleting", "the files in its volumes are read before it is deleted")
    if sleep.get("asleep"):
        return SleepDecision(True, "Requested", "spec.sleep.asleep is set")
    events = [*_scheduled(sleep.get("schedule") or {}, now), *_requests(tenant, now)]
    upcoming = min((event.at for event in events if event.at > now), default=None)
    latest = max((event for event in events if event.at <= now), default=None)
    if latest is None:
        return SleepDecision(False, "Awake", "nothing puts the tenant to sleep", upcoming)
    return SleepDecision(latest.is_asleep, latest.reason, latest.message, upcoming)


def latest_activity(tenant: Object, on_plane: Object, now: float) -> str:
    """`status.lastActivityTime` of a dedicated tenant, whose Tenant on its plane says it too. The plane may say anything:
    it counts only now and then, and at most until now."""
    written: str = tenant["status"]["lastActivityTime"]
    seconds = inactivity_seconds(tenant)
    try:
        claimed = meta.parse_time(get(on_plane, "status", "lastActivityTime", default=""))
    except (TypeError, ValueError, OverflowError):
        return written
    at = min(claimed, now)
    is_newer = seconds is not None and at - meta.parse_time(written) >= seconds / CLAIMS_PER_INTERVAL
    return meta.format_time(at) if is_newer else written


def _requests(tenant: Object, now: float) -> Iterator[_SleepEvent]:
    """Events of the users' requests and of `wakeTime`."""
    wake_time = _time(sleep_of(tenant).get("wakeTime"))
    if wake_time is not None:
        yield _SleepEvent(wake_time, False, "Woken", "woken at spec.sleep.wakeTime")
    seconds, activity = inactivity_seconds(tenant), _time(get(tenant, "status", "lastActivityTime"))
    if seconds is None or activity is None:
        return
    yield _SleepEvent(min(activity, now), False, "Active", "a user of the tenant sent a request")
    if wake_time is not None and wake_time <= now:
        activity = max(activity, wake_time)
    message = "no user of the tenant sent a request for spec.sleep.afterInactivity"
    yield _SleepEvent(min(activity, now) + seconds, True, "Inactivity", message)


def _scheduled(schedule: Object, now: float) -> Iterator[_SleepEvent]:
    """The latest and the next time of both schedules."""
    name = schedule.get("timeZone")
    zone = cron.load_zone(name) if name else UTC
    for field, is_asleep in (("sleep", True), ("wake", False)):
        times = cron.parse(schedule[field]) if schedule.get(field) else None
        if not isinstance(times, cron.Schedule):
            continue
        for at in (_latest(times, zone, now), times.next_after(now, zone)):
            if at is not None:
                yield _SleepEvent(at, is_asleep, "Schedule", f"a time of spec.sleep.schedule.{field}")


def _latest(times: cron.Schedule, zone: tzinfo, now: float) -> float | None:
    found = (times.last(now - seconds, now, zone) for seconds in LOOKBACK_SECONDS)
    return next((at for at in found if at is not None), None)


def _time(text: str | None) -> float | None:
    return meta.parse_time(text) if text else None
