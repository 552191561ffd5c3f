"""StorageVersionMigrations: writes every object of a resource once more, so that it is stored at the current version.

The API server stores an object at the current version whenever it is written, even if nothing else changes. One page of
objects is written per turn, so that large migrations of one tenant do not delay others. A migration that is interrupted
begins again: to write an object twice does no harm.
"""

from __future__ import annotations

from alcove.api import objects
from alcove.api.errors import Conflict, Expired, Forbidden, Invalid, NotFound
from alcove.api.kinds.storagemigration import FAILED, SUCCEEDED, has_condition
from alcove.api.objects import Object
from alcove.client import discovery
from alcove.client.client import ListSelection
from alcove.client.keys import ObjectKey
from alcove.client.resources import STORAGE_VERSION_MIGRATIONS, Resource
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

PAGE_OBJECTS = 100
RUNNING = "Running"
_NEXT = Result(after_seconds=0.0)


class StorageVersionMigrator(Controller):
    name = "storage-version-migrator"
    resource = STORAGE_VERSION_MIGRATIONS
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._migrations = self.mirror(STORAGE_VERSION_MIGRATIONS)
        self._continue: dict[ObjectKey, str] = {}
        """Where the next page of each running migration begins."""
        self.on(self._migrations)

    async def reconcile(self, key: ObjectKey) -> Result:
        migration = self._migrations.get(key)
        if migration is None or has_condition(migration, SUCCEEDED) or has_condition(migration, FAILED):
            self._continue.pop(key, None)
            return DONE
        resource = await self._find(key, migration)
        if resource is None:
            message = "the resource is not served, or its objects cannot be updated"
            return await self._finish(key, migration, FAILED, message)
        if not has_condition(migration, RUNNING):
            return await self._start(key, migration, resource)
        return await self._migrate_page(key, migration, resource)

    async def _find(self, key: ObjectKey, migration: Object) -> Resource | None:
        wanted = migration["spec"]["resource"]
        for each in await discovery.served(self.client(key), key.tenant):
            found = each.resource
            if (found.group, found.resource) == (wanted.get("group", ""), wanted["resource"]):
                return found if {"list", "patch"} <= each.verbs else None
        return None

    async def _start(self, key: ObjectKey, migration: Object, resource: Resource) -> Result:
        page = await self.client(key).page(key.tenant, ListSelection(resource, metadata_only=True), limit=1)
        migration.setdefault("status", {})["resourceVersion"] = str(page.revision)
        self._continue.pop(key, None)
        return await self._write(
            key, migration, Condition(RUNNING, True, "StorageVersionMigrationInProgress", "")
        )

    async def _migrate_page(self, key: ObjectKey, migration: Object, resource: Resource) -> Result:
        client, selection = self.client(key), ListSelection(resource, metadata_only=True)
        try:
            page = await client.page(
                key.tenant, selection, limit=PAGE_OBJECTS, continue_=self._continue.get(key, "")
            )
        except Expired:
            self._continue.pop(key, None)
            return _NEXT
        except (NotFound, Forbidden) as error:
            return await self._finish(key, migration, FAILED, str(error))
        for obj in page.items:
            metadata = obj["metadata"]
            try:
                await client.patch(
                    key.tenant,
                    resource,
                    metadata["name"],
                    {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}},
                    namespace=metadata.get("namespace", ""),
                )
            except (NotFound, Conflict):
                continue  # Deleted, or written by somebody else, and so stored at the current version.
            except (Invalid, Forbidden) as error:
                message = f"{objects.name(obj)} cannot be written: {error}"
                return await self._finish(key, migration, FAILED, message)
        if page.continue_:
            self._continue[key] = page.continue_
            return _NEXT
        return await self._finish(key, migration, SUCCEEDED, "")

    async def _finish(self, key: ObjectKey, migration: Object, kind: str, message: str) -> Result:
        self._continue.pop(key, None)
        reason = f"StorageVersionMigration{kind}"
        return await self._write(
            key,
            migration,
            Condition(RUNNING, False, reason, ""),
            Condition(kind, True, reason, message),
        )

    async def _write(self, key: ObjectKey, migration: Object, *desired: Condition) -> Result:
        status = migration.setdefault("status", {})
        status["conditions"] = conditions.updated(status.get("conditions") or [], desired, self.clock())
        await self.client(key).update(key.tenant, STORAGE_VERSION_MIGRATIONS, migration, subresource="status")
        return DONE
