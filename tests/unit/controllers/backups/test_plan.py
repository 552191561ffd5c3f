"""When a tenant's backup is due, and where it goes."""

from __future__ import annotations

from typing import Any

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.backups.plan import RETRY_SECONDS, next_backup, request_for

CREATED = meta.parse_time("2026-11-16T10:00:00Z")
HOUR = 3_600.0


def tenant(status: dict[str, Any] | None = None, *, deleted: bool = False, **spec: Any) -> Object:
    metadata = {"name": "acme", "uid": "0123456789", "creationTimestamp": meta.format_time(CREATED)}
    if deleted:
        metadata["deletionTimestamp"] = meta.format_time(CREATED + HOUR)
    return {"metadata": metadata, "spec": spec, "status": {"backup": status or {}}}


def at(seconds: float) -> str:
    return meta.format_time(CREATED + seconds)


BACKUP = {"schedule": "30 * * * *", "to": "s3://bucket/some/"}


def test_the_first_is_due_at_the_first_time_after_the_tenant_was_made() -> None:
    found = next_backup(tenant(backup=BACKUP), CREATED)
    assert found is not None and found.at == CREATED + HOUR / 2 and not found.is_last


def test_what_was_missed_is_made_up_for_once() -> None:
    now = CREATED + 30 * 24 * HOUR
    found = next_backup(tenant(backup=BACKUP), now)
    assert found is not None and found.at <= now
    found = next_backup(tenant({"lastScheduleTime": meta.format_time(now)}, backup=BACKUP), now)
    assert found is not None and found.at == now + HOUR / 2


def test_a_failed_one_is_tried_again_later() -> None:
    now = CREATED + HOUR
    failed = {"lastFailureTime": at(HOUR)}
    found = next_backup(tenant(failed, backup=BACKUP), now)
    assert found is not None and found.at == now + RETRY_SECONDS
    succeeded = {**failed, "lastSuccessTime": at(HOUR + 60), "lastScheduleTime": at(HOUR + 60)}
    found = next_backup(tenant(succeeded, backup=BACKUP), now)
    assert found is not None and found.at == CREATED + 1.5 * HOUR


def test_a_clock_that_was_set_back_delays_nothing_for_long() -> None:
    found = next_backup(tenant({"lastScheduleTime": at(1_000 * HOUR)}, backup=BACKUP), CREATED + HOUR)
    assert found is not None and found.at == CREATED + 1.5 * HOUR


def test_nothing_is_due_without_a_schedule() -> None:
    for spec in ({}, {"backup": {"to": "/b"}}, {"backup": {"to": "/b"}, "backupBeforeDelete": True}):
        assert next_backup(tenant(**spec), CREATED) is None


def test_before_deletion_there_is_one_if_asked_for() -> None:
    now = CREATED + 2 * HOUR
    assert next_backup(tenant(deleted=True, backup=BACKUP), now) is None
    found = next_backup(tenant(deleted=True, backup=BACKUP, backupBeforeDelete=True), now)
    assert found is not None and found.at <= now and found.is_last
    done = {"beforeDelete": "s3://bucket/x"}
    assert next_backup(tenant(done, deleted=True, backup=BACKUP, backupBeforeDelete=True), now) is None


def test_each_tenant_has_a_folder_of_its_own() -> None:
    request = request_for(tenant(backup=BACKUP), CREATED, {"a": "b"})
    assert request.place == "s3://bucket/some/acme-01234567/20261116T100000Z.backup"
    assert (request.tenant, request.keep, request.settings) == ("acme", 7, {"a": "b"})


def test_files_in_volumes_are_read_if_asked_for_while_the_tenant_is_awake() -> None:
    with_volumes = {**BACKUP, "volumes": True}
    assert request_for(tenant(backup=with_volumes), CREATED, {}).volumes
    assert not request_for(tenant(backup=BACKUP), CREATED, {}).volumes
    for deleted, now in ((False, CREATED + HOUR), (True, CREATED + 2 * HOUR)):
        made = tenant(deleted=deleted, backup=with_volumes, backupBeforeDelete=True)
        assert next_backup(made, now) is not None
        made["status"]["conditions"] = [{"type": "Asleep", "status": "True"}]
        assert next_backup(made, now) is None
        made["spec"]["backup"] = BACKUP
        assert next_backup(made, now) is not None, "objects can be read from a tenant that is asleep"
