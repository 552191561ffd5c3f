"""Deletion of CRDs: a CRD's objects are deleted first, then its finalizer is removed, which deletes the CRD.

One task does this for all CRDs that are being deleted. Changes of CRDs and of the objects it waits for wake
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from alcove.api import meta, objects
from alcove.api.encode import encode
from alcove.api.errors import ApiError, NotFound
from alcove.api.ids import SYSTEM, GroupResource, Key, TenantId
from alcove.api.resources import CRDS, TENANTS
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.call import ApiCall
from alcove.apiserver.crds import removal
from alcove.apiserver.identity import MASTERS, Identity
from alcove.apiserver.paths import RequestTarget
from alcove.apiserver.resources import deleting
from alcove.apiserver.resources.options import DeleteOptions
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpRequest
from alcove.store.base import RevisionMismatch, WriteOp

log = logging.getLogger(__name__)

SELF = Identity(SYSTEM, "system:apiserver", (MASTERS,))
RETRY_SECONDS = 5.0


class CrdRemoval:
    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._terminating: dict[Key, None] = {}
        """The CRDs that are being deleted: not searched for among those of all tenants."""
        self._awaited: set[GroupResource] = set()

    def notice(self, events: Sequence[CacheEvent]) -> None:
        """Takes the cache's events and wakes the task if one concerns it."""
        for event in events:
            key = event.entry.key
            if key.resource == CRDS:
                if event.kind is not CacheEventType.DELETED and _is_terminating(event.entry):
                    self._terminating[key] = None
                    self._woken.set()
                else:
                    self._terminating.pop(key, None)
            if key.resource in self._awaited:
                self._woken.set()

    async def run(self, services: ApiServerServices) -> None:
        existing = services.cache.entries(None, CRDS)
        self._terminating.update((entry.key, None) for entry in existing if _is_terminating(entry))
        while True:
            self._woken.clear()
            self._awaited.clear()
            failed = False
            for key in list(self._terminating):
                entry = services.cache.entry(key)
                if entry is None:
                    continue
                try:
                    await self._remove(services, entry)
                except (ApiError, RevisionMismatch):
                    failed = True
                except Exception:
                    log.exception("failed to remove CRD; retrying", extra={"crd": str(entry.key)})
                    failed = True
            await self._wait(RETRY_SECONDS if failed else None)

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _remove(self, services: ApiServerServices, entry: CacheEntry) -> None:
        crd = entry.decode()
        now = meta.format_time(services.clock())
        tenants = (TenantId(each.key.name) for each in services.cache.entries(SYSTEM, TENANTS))
        remaining = 0
        for belonging in removal.belongings(entry.key.tenant, crd, tenants):
            self._awaited.add(belonging.resource)
            for existing in list(services.cache.entries(belonging.tenant, belonging.resource)):
                remaining += await _delete(services, existing)
        if not removal.finish(crd, remaining, now):
            return
        op = WriteOp(entry.key, None, entry.revision, encode(crd))
        if crd["metadata"]["finalizers"]:
            op = WriteOp(entry.key, encode(crd), entry.revision)
        await services.store.write([op])
        await self._free_names(services, entry.key.tenant, crd, now)

    async def _free_names(
        self, services: ApiServerServices, tenant: TenantId, crd: objects.Object, now: str
    ) -> None:
        """Accepts the names of other CRDs that conflicted with the removed one."""
        for other, status in removal.freed(services.cache, tenant, crd, services.registry.all(), now):
            key = Key(CRDS, tenant, "", objects.name(other))
            entry = services.cache.entry(key)
            if entry is not None:
                await services.store.write(
                    [WriteOp(key, encode({**other, "status": status}), entry.revision)]
                )


def _is_terminating(definition: CacheEntry) -> bool:
    if b'"deletionTimestamp"' not in definition.body:
        return False  # Without decoding it: definitions are large.
    metadata = definition.object["metadata"]
    return bool(metadata.get("deletionTimestamp")) and removal.FINALIZER in (metadata.get("finalizers") or ())


async def _delete(services: ApiServerServices, entry: CacheEntry) -> int:
    """Deletes the object. Returns 1 if it still exists and waits for its finalizers, else 0."""
    if entry.object["metadata"].get("deletionTimestamp"):
        return 1
    resource = entry.key.resource
    kind = services.kinds.stored(entry.key.tenant, resource)
    if kind is None:
        return 0
    target = RequestTarget(
        entry.key.tenant, "", kind.group, kind.version, kind.resource, entry.key.namespace, entry.key.name
    )
    call = ApiCall(HttpRequest("DELETE", "", "", {}), target, services.clock())
    call.caller = call.identity = SELF
    call.tenant, call.kind, call.verb = entry.key.tenant, kind, "delete"
    try:
        _, deleted = await deleting.delete_object(services, call, entry.key, DeleteOptions())
    except NotFound:
        return 0
    return 0 if deleted else 1
