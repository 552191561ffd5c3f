"""When a tenant's next backup is due, and where it goes. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from alcove.api import cron, meta, objects
from alcove.api.kinds.core.backups import KEEP_DEFAULT, backup_of, must_save_before_delete
from alcove.api.kinds.core.sleep import is_asleep
from alcove.api.objects import Object, get
from alcove.controllers.backup_requests import BackupRequest

RETRY_SECONDS = 300.0
"""After a failure."""


class DueBackup(Struct, frozen=True):
    at: float
    """Epoch seconds; in the past if it is due."""
    is_last: bool = False
    """Before the tenant is deleted."""
    scheduled_at: float = 0.0
    """The time of the schedule that it is for."""


def next_backup(tenant: Object, now: float) -> DueBackup | None:
    """None if none is asked for, or files in volumes cannot be read because the tenant is asleep. Raises CronError for a schedule
    that validation would reject."""
    if has_volumes(tenant) and is_asleep(tenant):
        return None
    failed_at = _time(tenant, "lastFailureTime")
    retry_at = failed_at + RETRY_SECONDS if failed_at > _time(tenant, "lastSuccessTime") else 0.0
    if "deletionTimestamp" in tenant["metadata"]:
        return DueBackup(max(now, retry_at), is_last=True) if must_save_before_delete(tenant) else None
    backup = backup_of(tenant)
    if not backup.get("schedule"):
        return None
    zone = cron.load_zone(backup["timeZone"]) if backup.get("timeZone") else UTC
    since = _time(tenant, "lastScheduleTime") or meta.parse_time(tenant["metadata"]["creationTimestamp"])
    # What was missed is made up for by one backup.
    due = cron.parse(backup["schedule"]).next_after(min(since, now), zone)
    return DueBackup(max(due, retry_at), scheduled_at=max(due, 0.0)) if due is not None else None


def has_volumes(tenant: Object) -> bool:
    """Whether backups have the files in volumes."""
    return bool(backup_of(tenant).get("volumes"))


def request_for(tenant: Object, now: float, settings: dict[str, str]) -> BackupRequest:
    """Each Tenant has a folder of its own, so that a later one of the same name does not remove its backups."""
    backup, name = backup_of(tenant), objects.name(tenant)
    folder = f"{str(backup.get('to', '')).rstrip('/')}/{name}-{tenant['metadata']['uid'][:8]}"
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    keep = int(backup.get("keep", KEEP_DEFAULT))
    return BackupRequest(name, f"{folder}/{stamp}.backup", keep, has_volumes(tenant), settings)


def _time(tenant: Object, field: str) -> float:
    text = get(tenant, "status", "backup", field, default="")
    try:
        return meta.parse_time(text) if text else 0.0
    except ValueError:
        return 0.0
