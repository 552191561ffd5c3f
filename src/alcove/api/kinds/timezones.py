"""Names of time zones in specs, checked as Kubernetes checks those of CronJobs."""

import re

from alcove.api import cron
from alcove.api.fields import FieldError, invalid

_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def check_time_zone(zone: str, path: str) -> list[FieldError]:
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return [invalid(path, zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        message = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid(path, zone, message)]
    try:
        cron.load_zone(zone)
    except cron.CronError as error:
        return [invalid(path, zone, str(error))]
    return []
