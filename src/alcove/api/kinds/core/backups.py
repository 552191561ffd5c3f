"""Backups of tenants by schedule and before deletion: `spec.backup`, `spec.backupBeforeDelete` and `status.backup`."""

from urllib.parse import urlsplit

from alcove.api import cron, names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.ids import SYSTEM
from alcove.api.kinds.timezones import check_time_zone
from alcove.api.objects import Object, get, name
from alcove.api.validation import FieldErrors, check_value

KEEP_MAX = 1_000
KEEP_DEFAULT = 7
S3 = "s3://"
_PATH = "spec.backup"


def backup_of(tenant: Object) -> Object:
    """The tenant's `spec.backup`; empty if it has none."""
    return get(tenant, "spec", "backup", default=None) or {}


def must_save_before_delete(tenant: Object) -> bool:
    """Whether the tenant is deleted, and its objects must stay until they are saved."""
    return (
        bool(get(tenant, "spec", "backupBeforeDelete"))
        and "deletionTimestamp" in tenant["metadata"]
        and not get(tenant, "status", "backup", "beforeDelete")
    )


def reads_volumes_before_delete(tenant: Object) -> bool:
    """Whether the files in its volumes have to be saved too: pods of the tenant read them."""
    return must_save_before_delete(tenant) and bool(backup_of(tenant).get("volumes"))


def check_backup(tenant: Object) -> list[FieldError]:
    backup, errors = backup_of(tenant), FieldErrors()
    is_asked_for = bool(backup) or bool(get(tenant, "spec", "backupBeforeDelete"))
    if not is_asked_for:
        return []
    if name(tenant) == SYSTEM:
        return [forbidden(_PATH, "the system tenant is not saved this way: see `alcove backup`")]
    _check_place(backup.get("to") or "", f"{_PATH}.to", errors)
    if schedule := backup.get("schedule"):
        try:
            cron.parse(schedule)
        except cron.CronError as error:
            errors.append(invalid(f"{_PATH}.schedule", schedule, str(error)))
    if "timeZone" in backup:
        errors += check_time_zone(backup["timeZone"], f"{_PATH}.timeZone")
    keep = backup.get("keep", KEEP_DEFAULT)
    if not 1 <= keep <= KEEP_MAX:
        errors.append(invalid(f"{_PATH}.keep", keep, names.out_of_range(1, KEEP_MAX)))
    if secret := backup.get("secretName"):
        check_value(secret, names.dns_subdomain, f"{_PATH}.secretName", errors)
    return errors


def _check_place(place: str, path: str, errors: FieldErrors) -> None:
    if not place:
        errors.append(required(path))
    elif place.startswith(S3):
        if not urlsplit(place).netloc:
            errors.append(invalid(path, place, "must be s3://BUCKET or s3://BUCKET/PREFIX"))
    elif not place.startswith("/") or ".." in place.split("/") or not place.isprintable():
        message = "must be s3://BUCKET/PREFIX, or an absolute path where the controllers run"
        errors.append(invalid(path, place, message))
