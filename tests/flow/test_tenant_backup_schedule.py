"""Backups that ring0's controllers make: by schedule, with old ones removed, and before a tenant is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.cli.tenant_backup import places
from alcove.cli.tenant_backup.archive import VERSION_WITH_VOLUMES, ArchiveReader
from alcove.controllers.backup_requests import BackupRequest
from alcove.controllers.backups import BackupController
from alcove.controllers.backups.controller import WITH_VOLUMES_MAX
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


def test_a_backup_by_schedule_has_volumes_if_asked_for(home: LocalServer, tmp_path: Path) -> None:
    create(home, "volumes", backup={"schedule": "@every 1s", "to": str(tmp_path), "volumes": True})
    place = wait_until(lambda: backup_status(home, "volumes").get("lastBackup"), SECONDS_MAX)
    assert home.system.patch("/api/v1/tenants/volumes", {"spec": {"backup": None}}).status == 200
    with places.reading(Path(place), b"") as stream:
        assert ArchiveReader(stream).header.version == VERSION_WITH_VOLUMES


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


def test_pods_can_be_created_in_a_deleted_tenant_until_its_volumes_are_saved(
    home: LocalServer, tmp_path: Path
) -> None:
    folder = tmp_path / "no-folder"
    folder.write_text("a file is in the way")
    create(home, "files", backup={"to": str(folder), "volumes": True}, backupBeforeDelete=True)
    path, inside = "/api/v1/tenants/files", "/api/v1/tenants/files/namespaces/default"
    account = {"metadata": {"name": "default"}}
    wait_until(
        lambda: home.system.post(f"{inside}/serviceaccounts", account).status in (201, 409), SECONDS_MAX
    )
    assert home.system.delete(path).status == 200
    pod = {"spec": {"containers": [{"name": "main", "image": "example.com/app"}]}}
    made = home.system.post(f"{inside}/pods", {"metadata": {"name": "reader"}, **pod})
    assert made.status == 201, made.body
    assert home.system.post(f"{inside}/configmaps", {"metadata": {"name": "late"}}).status == 403
    assert home.system.patch(path, {"spec": {"backup": {"volumes": False}}}).status == 200
    refused = home.system.post(f"{inside}/pods", {"metadata": {"name": "late"}, **pod})
    assert refused.status == 403 and "being terminated" in refused.json["message"], refused.body
    assert home.system.patch(path, {"spec": {"backupBeforeDelete": False}}).status == 200


class BlockedBackups:
    """Instead of processes that save: those with files in volumes do not end."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.most = 0
        self.saved: set[str] = set()

    async def run(self, request: BackupRequest) -> str:
        if request.volumes:
            self.running.add(request.tenant)
            self.most = max(self.most, len(self.running))
            try:
                await asyncio.Event().wait()
            finally:
                self.running.discard(request.tenant)
        self.saved.add(request.tenant)
        return ""


def test_large_volumes_of_some_do_not_keep_others_from_being_saved(tmp_path: Path) -> None:
    blocked = BlockedBackups()
    options = ControllerOptions(run_backup=blocked.run)
    with LocalServer(tmp_path / "server") as server:
        server.make_namespace("system", "kube-system")
        with RunningControllers(server.admin_kubeconfig, (BackupController,), options):
            for number in range(WITH_VOLUMES_MAX + 8):
                backup = {"schedule": "@every 1s", "to": str(tmp_path), "volumes": True}
                create(server, f"large-{number}", backup=backup)
            wait_until(lambda: len(blocked.running) == WITH_VOLUMES_MAX, SECONDS_MAX)
            create(server, "small", backup={"schedule": "@every 1s", "to": str(tmp_path)})
            wait_until(lambda: "small" in blocked.saved, SECONDS_MAX)
            assert blocked.most == WITH_VOLUMES_MAX
