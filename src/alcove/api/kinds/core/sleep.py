"""Sleep of tenants: the fields of `spec.sleep`, and the condition that says whether a tenant is asleep.

The condition is written by one controller (`controllers/sleep`). Everybody else reads it by `is_asleep`.
"""

from alcove.api import cron
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.ids import SYSTEM
from alcove.api.kinds.timezones import check_time_zone
from alcove.api.objects import Object, get, name

ASLEEP = "Asleep"
INACTIVITY_SECONDS_MIN = 60.0
_PATH = "spec.sleep"


def is_asleep(tenant: Object) -> bool:
    conditions = get(tenant, "status", "conditions", default=())
    return any(each.get("type") == ASLEEP and each.get("status") == "True" for each in conditions)


def sleep_of(tenant: Object) -> Object:
    """The tenant's `spec.sleep`; empty if it has none."""
    return get(tenant, "spec", "sleep", default=None) or {}


def inactivity_seconds(tenant: Object) -> float | None:
    """`spec.sleep.afterInactivity`; None if it is not set."""
    text = sleep_of(tenant).get("afterInactivity")
    return cron.duration_seconds(text) if text else None


def check_sleep(tenant: Object) -> list[FieldError]:
    sleep = sleep_of(tenant)
    if not sleep:
        return []
    if name(tenant) == SYSTEM:
        return [forbidden(_PATH, "the system tenant never sleeps")]
    errors: list[FieldError] = []
    if text := sleep.get("afterInactivity"):
        errors += _check_inactivity(text)
    if (schedule := sleep.get("schedule")) is not None:
        errors += _check_schedule(schedule, f"{_PATH}.schedule")
    return errors


def _check_inactivity(text: str) -> list[FieldError]:
    path = f"{_PATH}.afterInactivity"
    try:
        seconds = cron.duration_seconds(text)
    except cron.CronError as error:
        return [invalid(path, text, str(error))]
    if seconds < INACTIVITY_SECONDS_MIN:
        return [invalid(path, text, f"must be at least {INACTIVITY_SECONDS_MIN:g}s")]
    return []


def _check_schedule(schedule: Object, path: str) -> list[FieldError]:
    errors = [] if schedule.get("sleep") else [required(f"{path}.sleep")]
    for field in ("sleep", "wake"):
        if text := schedule.get(field):
            errors += _check_times(text, f"{path}.{field}")
    if "timeZone" in schedule:
        errors += check_time_zone(schedule["timeZone"], f"{path}.timeZone")
    return errors


def _check_times(text: str, path: str) -> list[FieldError]:
    try:
        parsed = cron.parse(text)
    except cron.CronError as error:
        return [invalid(path, text, str(error))]
    if isinstance(parsed, cron.Every):
        return [invalid(path, text, "must name times of day: @every has none")]
    return []
