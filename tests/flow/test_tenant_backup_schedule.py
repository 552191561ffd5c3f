"""Backups that ring0's controllers make: by schedule, with old ones removed, and before a tenant is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.cli.tenant_backup import places
from alcove.cli.tenant_backup.archive import ArchiveReader
from alcove.controllers.backups import BackupController
from alcove.controllers.controller import ControllerOptions
from alcove.controllers.namespaces import NamespaceController
from alcove.controllers.tenants import TenantController
from alcove.processes.tenant_backups import backup_runner
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import LocalServer, wait_until

CONTROLLERS = (TenantController, NamespaceController, BackupController)
SECONDS_MAX = 180.0
"""A backup is a process, which takes a while to start beside others."""
PASSPHRASE = "a passphrase that is long enough"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("backups")) as server:
        server.make_namespace("system", "kube-system")
        options = ControllerOptions(run_backup=backup_runner(server.admin_kubeconfig))
        with RunningControllers(server.admin_kubeconfig, CONTROLLERS, options):
            yield server


def create(home: LocalServer, name: str, **spec: Any) -> None:
    answer = home.system.post("/api/v1/tenants", {"metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer.body


def backup_status(home: LocalServer, name: str) -> Object:
    found: Object = home.system.get(f"/api/v1/tenants/{name}").json["status"].get("backup") or {}
    return found


def saved(place: str, passphrase: bytes = b"") -> str:
    """The tenant that a backup is of."""
    with places.reading(Path(place), passphrase) as stream:
        return ArchiveReader(stream).header.tenant


def test_backups_are_made_by_schedule_and_old_ones_removed(home: LocalServer, tmp_path: Path) -> None:
    create(home, "often", backup={"schedule": "@every 1s", "to": str(tmp_path / "b"), "keep": 2})
    seen: set[str] = set()

    def has_three() -> bool:
        seen.add(backup_status(home, "often").get("lastBackup", ""))
        return len(seen - {""}) >= 3

    wait_until(has_three, SECONDS_MAX)
    stopped = {"spec": {"backup": {"schedule": None}}}
    assert home.system.patch("/api/v1/tenants/often", stopped).status == 200
    assert saved(backup_status(home, "often")["lastBackup"]) == "often"
    [folder] = (tmp_path / "b").iterdir()
    wait_until(lambda: len(list(folder.glob("*.backup"))) == 2, SECONDS_MAX)
    assert folder.stat().st_mode & 0o077 == 0


def test_a_backup_that_fails_says_why_and_is_made_with_the_secret(home: LocalServer, tmp_path: Path) -> None:
    backup = {"schedule": "@every 1s", "to": str(tmp_path), "secretName": "store"}
    create(home, "secret", backup=backup)
    wait_until(
        lambda: 'secret "store" not found' in backup_status(home, "secret")["lastFailureMessage"], SECONDS_MAX
    )
    assert not list(tmp_path.glob("secret-*"))
    secret = {"metadata": {"name": "store"}, "stringData": {"passphrase": PASSPHRASE}}
    assert home.system.post("/api/v1/namespaces/kube-system/secrets", secret).status == 201
    # As if the time to wait after a failure were over.
    forgotten = {"status": {"backup": {"lastFailureTime": None}}}
    assert home.system.patch("/api/v1/tenants/secret/status", forgotten).status == 200
    place = wait_until(lambda: backup_status(home, "secret")["lastBackup"], SECONDS_MAX)
    assert home.system.patch("/api/v1/tenants/secret", {"spec": {"backup": {"schedule": None}}}).status == 200
    assert PASSPHRASE.encode() not in Path(place).read_bytes()
    assert saved(place, PASSPHRASE.encode()) == "secret"


def test_nothing_of_a_deleted_tenant_is_removed_before_it_is_saved(home: LocalServer, tmp_path: Path) -> None:
    folder = tmp_path / "no-folder-yet"
    folder.write_text("a file is in the way")
    create(home, "last", backup={"to": str(folder)}, backupBeforeDelete=True)
    path = "/api/v1/tenants/last"
    wait_until(lambda: home.system.get(f"{path}/namespaces/default").status == 200, SECONDS_MAX)
    made = {"metadata": {"name": "precious"}, "data": {"a": "b"}}
    maps = f"{path}/namespaces/default/configmaps"
    assert home.system.post(maps, made).status == 201
    assert home.system.delete(path).status == 200
    wait_until(lambda: backup_status(home, "last")["lastFailureMessage"], SECONDS_MAX)
    assert home.system.get(f"{maps}/precious").status == 200
    folder.unlink()
    assert (
        home.system.patch(f"{path}/status", {"status": {"backup": {"lastFailureTime": None}}}).status == 200
    )
    wait_until(lambda: home.system.get(path).status == 404, SECONDS_MAX)
    [place] = folder.glob("last-*/*.backup")
    with places.reading(place, b"") as stream:
        assert "precious" in [each.obj["metadata"]["name"] for each in ArchiveReader(stream).objects()]
