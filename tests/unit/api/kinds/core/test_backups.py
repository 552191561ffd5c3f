"""`spec.backup` and `spec.backupBeforeDelete` of a Tenant."""

from typing import Any

import pytest

from alcove.api.kinds.core.backups import (
    check_backup,
    must_save_before_delete,
    reads_volumes_before_delete,
)
from alcove.api.objects import Object


def tenant(name: str = "acme", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": spec}


def fields(obj: Object) -> list[str]:
    return [error.field for error in check_backup(obj)]


@pytest.mark.parametrize(
    "backup",
    [
        {"to": "s3://bucket", "volumes": True},
        {"to": "s3://bucket/a/b", "schedule": "@daily", "keep": 1, "secretName": "store"},
        {"to": "/var/backups", "schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "keep": 1_000},
    ],
)
def test_good_ones(backup: Object) -> None:
    assert fields(tenant(backup=backup, backupBeforeDelete=True)) == []
    assert fields(tenant()) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("to", ""),
        ("to", "s3://"),
        ("to", "relative/path"),
        ("to", "/a/../../etc"),
        ("to", "/a\nb"),
        ("schedule", "every day"),
        ("schedule", "61 * * * *"),
        ("timeZone", "Nowhere/City"),
        ("keep", 0),
        ("keep", 1_001),
        ("secretName", "../x"),
    ],
)
def test_bad_ones_are_named(field: str, value: object) -> None:
    assert fields(tenant(backup={"to": "/b", field: value})) == [f"spec.backup.{field}"]


def test_a_backup_before_deletion_needs_a_place() -> None:
    assert fields(tenant(backupBeforeDelete=True)) == ["spec.backup.to"]


def test_ring0_is_not_saved_this_way() -> None:
    assert fields(tenant("system", backup={"to": "/b"})) == ["spec.backup"]


def test_only_a_deleted_tenant_waits() -> None:
    made = tenant(backupBeforeDelete=True)
    assert not must_save_before_delete(made)
    made["metadata"]["deletionTimestamp"] = "2026-11-16T10:00:00Z"
    assert must_save_before_delete(made)
    assert not reads_volumes_before_delete(made)
    made["spec"]["backup"] = {"to": "/b", "volumes": True}
    assert reads_volumes_before_delete(made)
    made["status"] = {"backup": {"beforeDelete": "/b/x"}}
    assert not must_save_before_delete(made) and not reads_volumes_before_delete(made)
