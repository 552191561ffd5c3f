"""Endpoints objects, for clients that do not read slices."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.objects import Object, labels
from alcove.api.validation import same
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import ENDPOINTS
from alcove.controllers.controller import ControllerContext
from alcove.controllers.endpoints import subsets
from alcove.controllers.endpoints.backends import is_managed, is_of_previous
from alcove.controllers.endpoints.service_watcher import ServiceWatcher
from alcove.controllers.terminating import is_namespace_or_tenant_missing


class EndpointsController(ServiceWatcher):
    name = "endpoint"
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._endpoints = self.mirror(ENDPOINTS)
        self.on(self._endpoints, self._of_endpoints)

    def has_endpoints(self, key: ObjectKey) -> bool:
        return key in self._endpoints

    def _of_endpoints(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Of a service that has none of this controller's, only those of an earlier service of its name."""
        service = self._services.get(change.key)
        if service is None:
            return () if change.kind is ChangeType.DELETED else (change.key,)
        is_affected = is_managed(service) or is_of_previous(change.obj, service)
        return (change.key,) if is_affected else ()

    async def sync_service(self, key: ObjectKey, service: Object) -> None:
        if not is_managed(service):
            existing = self._endpoints.get(key)
            if existing is not None and is_of_previous(existing, service):
                await self.on_service_deleted(key)
        elif "deletionTimestamp" not in service["metadata"]:
            desired = subsets.desired_subsets(service, await self.backends(key, service))
            await self._apply(key, self._endpoints.get(key), desired)

    async def on_service_deleted(self, key: ObjectKey) -> None:
        """Deletes only an object that this controller created: users may manage Endpoints themselves."""
        existing = self._endpoints.get(key)
        if existing is None or labels(existing).get(subsets.MANAGED_LABEL) != subsets.MANAGER:
            return
        try:
            await self.client(key).delete(
                key.tenant, ENDPOINTS, key.name, namespace=key.namespace, uid=existing["metadata"]["uid"]
            )
        except NotFound:
            pass

    async def _apply(self, key: ObjectKey, existing: Object | None, desired: Object) -> None:
        try:
            if existing is None:
                await self.client(key).create(key.tenant, ENDPOINTS, desired)
            elif changed := _changed(existing, desired):
                await self.client(key).update(key.tenant, ENDPOINTS, changed)
        except AlreadyExists:
            pass  # The watch event enqueues the service again.
        except NotFound as error:
            if is_namespace_or_tenant_missing(error):
                raise


def _changed(existing: Object, desired: Object) -> Object | None:
    """The existing object with the desired content; None if nothing has to change."""
    annotations = {
        name: value
        for name, value in (existing["metadata"].get("annotations") or {}).items()
        if name != subsets.OVER_CAPACITY
    } | (desired["metadata"].get("annotations") or {})
    owners = [
        each for each in existing["metadata"].get("ownerReferences") or () if not each.get("controller")
    ] + desired["metadata"]["ownerReferences"]
    metadata = {
        **existing["metadata"],
        "labels": desired["metadata"]["labels"],
        "annotations": annotations,
        "ownerReferences": owners,
    }
    new = {**existing, "metadata": metadata, "subsets": desired.get("subsets") or []}
    return None if same(new, existing) else new
