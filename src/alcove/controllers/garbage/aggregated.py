"""Deletes objects of aggregated APIs whose owners are deleted.

The metadata cache does not have these objects: their servers are asked at intervals, and a tenant's server that is slow
or hostile costs no more than that. An object is deleted if every owner is of a kind that the API server itself serves, and
none of them exists. It does not delay an owner in foreground deletion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import orjson

from alcove.api import objects
from alcove.api.errors import ApiError, NotFound
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.errors import MalformedResponse, Unreachable
from alcove.client.keys import ObjectKey
from alcove.client.resources import API_SERVICES
from alcove.component.fair_slots import FairSlots
from alcove.controllers import conditions
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

INTERVAL_SECONDS = 30.0
PASS_SECONDS_MAX = 20.0
"""For all requests about one group version."""
PAGE_OBJECTS, PAGES_MAX = 500, 20
OWNED_OBJECTS_MAX = 2000
"""Objects with owners of one group version that are looked at in one pass."""
PASSES_MAX, PASSES_PER_TENANT_MAX = 8, 2
log = logging.getLogger(__name__)


class AggregatedGarbage(Controller):
    name = "aggregated-garbage-collector"
    resource = API_SERVICES
    workers = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._api_services = self.mirror(API_SERVICES)
        self._passes: FairSlots[TenantId] = FairSlots(PASSES_MAX, owner_max=PASSES_PER_TENANT_MAX)
        self.on(self._api_services)

    async def reconcile(self, key: ObjectKey) -> Result:
        obj = self._api_services.get(key)
        if obj is None or "deletionTimestamp" in obj["metadata"] or not objects.get(obj, "spec", "service"):
            return DONE
        if not conditions.is_true(obj, "Available"):
            return DONE  # The change of the condition enqueues it again.
        try:
            async with self._passes.slot(key.tenant), asyncio.timeout(PASS_SECONDS_MAX):
                await self._collect(key, f"{obj['spec']['group']}/{obj['spec']['version']}")
        except (ApiError, Unreachable, MalformedResponse, TimeoutError) as error:
            extra = {"apiservice": str(key), "error": str(error)}
            log.info("failed to look for garbage in an aggregated API; retrying", extra=extra)
        except (AttributeError, KeyError, TypeError) as error:
            extra = {"apiservice": str(key), "error": type(error).__name__}
            log.info("answer of an aggregated API is not valid; retrying", extra=extra)
        return Result(after_seconds=INTERVAL_SECONDS)

    async def _collect(self, key: ObjectKey, group_version: str) -> None:
        root = f"/tenants/{key.tenant}/apis/{group_version}"
        seen: dict[tuple[str, ...], bool] = {}
        count = 0
        for name in _collectable(await self.client(key).request("GET", root)):
            async for each in self._owned(key, f"{root}/{quote(name, safe='')}"):
                count += 1
                if count > OWNED_OBJECTS_MAX:
                    return
                if await self._is_garbage(key, each, seen):
                    await self._delete(key, root, name, each["metadata"])

    async def _owned(self, key: ObjectKey, path: str) -> AsyncIterator[Object]:
        """Objects that have owners and are not being deleted."""
        token = ""
        for _ in range(PAGES_MAX):
            query = f"?limit={PAGE_OBJECTS}" + (f"&continue={quote(token, safe='')}" if token else "")
            page = await self.client(key).request("GET", path + query)
            for each in page.get("items") or ():
                metadata = each["metadata"]
                if metadata.get("ownerReferences") and "deletionTimestamp" not in metadata:
                    yield each
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return

    async def _is_garbage(self, key: ObjectKey, obj: Object, seen: dict[tuple[str, ...], bool]) -> bool:
        namespace = str(obj["metadata"].get("namespace") or "")
        for reference in obj["metadata"]["ownerReferences"]:
            fields = (namespace, *(str(reference[field]) for field in ("apiVersion", "kind", "name", "uid")))
            if fields not in seen:
                seen[fields] = await self._is_deleted(key, *fields)
            if not seen[fields]:
                return False
        return True

    async def _is_deleted(
        self, key: ObjectKey, namespace: str, api_version: str, kind: str, name: str, uid: str
    ) -> bool:
        """Whether an owner does not exist any more; False if the reference cannot be followed."""
        resource = self.metadata_cache.kind(key.tenant_key, api_version.rpartition("/")[0], kind)
        if resource is None or (resource.namespaced and not namespace):
            return False
        owner_key = key.of(name, namespace if resource.namespaced else "")
        mirrored = self.metadata_cache.get(resource, owner_key)
        if mirrored is not None and mirrored.uid == uid:
            return False
        try:
            owner = await self.client(key).get(key.tenant, resource, name, namespace=owner_key.namespace)
        except NotFound:
            return True
        return bool(owner["metadata"]["uid"] != uid)

    async def _delete(self, key: ObjectKey, root: str, resource: str, metadata: Object) -> None:
        namespace = str(metadata.get("namespace") or "")
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        path = f"{root}{inside}/{quote(resource, safe='')}/{quote(str(metadata['name']), safe='')}"
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid := metadata.get("uid"):
            options["preconditions"] = {"uid": str(uid)}
        try:
            await self.client(key).request("DELETE", path, orjson.dumps(options))
        except NotFound:
            pass


def _collectable(document: Object) -> Iterator[str]:
    """The resources whose objects can be listed and deleted."""
    for each in document.get("resources") or ():
        if "/" not in each["name"] and {"list", "delete"} <= set(each.get("verbs") or ()):
            yield str(each["name"])
