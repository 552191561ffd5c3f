"""The backup controller: saves tenants by `spec.backup.schedule`, and before they are deleted if
`spec.backupBeforeDelete` says so.

A backup is a run of `alcove tenant backup` in a process of its own (`ControllerOptions.run_backup`), which also removes
all but the newest. What came of it is in `status.backup` and an event. The tenant controller deletes nothing of a tenant
that has still to be saved.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable

from alcove.api import cron, meta
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.backups import backup_of, must_save_before_delete
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import SECRETS, TENANTS
from alcove.controllers.backup_requests import BACKUP_SECONDS_MAX, BackupRequest
from alcove.controllers.backups.plan import DueBackup, has_volumes, next_backup, request_for
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"
"""Of ring0: where the Secrets with credentials are."""
RESYNC_SECONDS_MAX = 3_600.0
"""Timers do not notice when the wall clock is set, so it is looked at again at least this often."""
MESSAGE_LENGTH_MAX = 1_000
WITH_VOLUMES_MAX = 2
"""Backups with files in volumes that are made at the same time: they may take hours, and must not keep others waiting."""
BUSY_SECONDS = 1.0


class BackupFailed(Exception):
    """The message says why, for ring0's administrators."""


class BackupController(Controller):
    name = "backup"
    resource = TENANTS
    workers = 8
    reconcile_seconds_max = BACKUP_SECONDS_MAX + 60.0

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._tenants = self.mirror(TENANTS, tenant=SYSTEM, only=HOME)
        self._with_volumes = 0
        """Backups with files in volumes that are being made."""
        self.on(self._tenants, _with_backups)

    async def reconcile(self, key: ObjectKey) -> Result:
        tenant = self._tenants.get(key)
        if tenant is None:
            return DONE
        now = self.clock()
        try:
            due = next_backup(tenant, now)
        except cron.CronError:
            return DONE  # Validation would have rejected it.
        if due is None:
            return DONE
        if due.at > now:
            return Result(min(due.at - now + 0.1, RESYNC_SECONDS_MAX))
        if not has_volumes(tenant):
            await self._save(key, tenant, due)
        elif self._with_volumes == WITH_VOLUMES_MAX:
            return Result(after_seconds=BUSY_SECONDS)
        else:
            self._with_volumes += 1
            try:
                await self._save(key, tenant, due)
            finally:
                self._with_volumes -= 1
        return Result(after_seconds=0.1)  # The status has changed: look when the next one is due.

    async def _save(self, key: ObjectKey, tenant: Object, due: DueBackup) -> None:
        began, place = self.clock(), ""
        try:
            request = request_for(tenant, began, await self._settings(backup_of(tenant)))
            place = request.place
            await self._run(request)
        except BackupFailed as error:
            message = str(error)[:MESSAGE_LENGTH_MAX]
            self.events.warning(key.plane, _named(tenant), "BackupFailed", message)
            changed = {"lastFailureTime": meta.format_time(self.clock()), "lastFailureMessage": message}
        else:
            self.events.normal(key.plane, _named(tenant), "BackedUp", f"Saved to {place}")
            changed = {"lastSuccessTime": meta.format_time(self.clock()), "lastBackup": place}
            changed |= {"beforeDelete": place} if due.is_last else {}
            if due.scheduled_at:
                changed["lastScheduleTime"] = meta.format_time(max(began, due.scheduled_at))
        await self.client(key).patch(
            SYSTEM, TENANTS, key.name, {"status": {"backup": changed}}, subresource="status"
        )

    async def _run(self, request: BackupRequest) -> None:
        run_backup = self.context.options.run_backup
        if run_backup is None:
            raise BackupFailed("these controllers are not configured to make backups")
        if message := await run_backup(request):
            raise BackupFailed(message)

    async def _settings(self, backup: Object) -> dict[str, str]:
        """What the Secret with credentials says. Raises BackupFailed."""
        name = backup.get("secretName")
        if not name:
            return {}
        try:
            secret = await self.context.planes.client(HOME).get(SYSTEM, SECRETS, name, namespace=NAMESPACE)
            data = secret.get("data") or {}
            return {field: base64.b64decode(text, validate=True).decode() for field, text in data.items()}
        except NotFound as error:
            raise BackupFailed(f'secret "{name}" not found in namespace {NAMESPACE}') from error
        except ValueError as error:
            raise BackupFailed(f'secret "{name}" has values that are not text') from error


def _named(tenant: Object) -> Object:
    return {**tenant, "apiVersion": TENANTS.api_version, "kind": TENANTS.kind}


def _with_backups(change: ObjectChange) -> Iterable[ObjectKey]:
    tenant = change.obj
    return (change.key,) if backup_of(tenant) or must_save_before_delete(tenant) else ()
