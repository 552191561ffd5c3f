"""Endpoints objects, for clients that do not read slices."""

from __future__ import annotations

from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.objects import Object, labels
from alcove.api.validation import same
from alcove.client.keys import ObjectKey
from alcove.client.resources import ENDPOINTS
from alcove.controllers.controller import ControllerContext
from alcove.controllers.endpoints import subsets
from alcove.controllers.endpoints.backends import is_kept
from alcove.controllers.endpoints.service_watcher import ServiceWatcher
from alcove.controllers.terminating import is_place_missing


class EndpointsController(ServiceWatcher):
    name = "endpoint"
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._endpoints = self.mirror(ENDPOINTS)
        self.on(self._endpoints)

    async def settle(self, key: ObjectKey, service: Object) -> None:
        if is_kept(service) and "deletionTimestamp" not in service["metadata"]:
            desired = subsets.desired_subsets(service, await self.backends(key, service))
            await self._keep(key, self._endpoints.get(key), desired)

    async def without(self, key: ObjectKey) -> None:
        """Only what we made goes: people keep endpoints of their own."""
        there = self._endpoints.get(key)
        if there is None or labels(there).get(subsets.MANAGED_LABEL) != subsets.MANAGER:
            return
        try:
            await self.client(key).delete(
                key.tenant, ENDPOINTS, key.name, namespace=key.namespace, uid=there["metadata"]["uid"]
            )
        except NotFound:
            pass

    async def _keep(self, key: ObjectKey, there: Object | None, desired: Object) -> None:
        try:
            if there is None:
                await self.client(key).create(key.tenant, ENDPOINTS, desired)
            elif changed := _changed(there, desired):
                await self.client(key).update(key.tenant, ENDPOINTS, changed)
        except AlreadyExists:
            pass  # The watch will tell.
        except NotFound as error:
            if is_place_missing(error):
                raise


def _changed(there: Object, desired: Object) -> Object | None:
    """The object with the wanted in place; None where it says so already."""
    annotations = {
        name: value
        for name, value in (there["metadata"].get("annotations") or {}).items()
        if name != subsets.OVER_CAPACITY
    } | (desired["metadata"].get("annotations") or {})
    metadata = {**there["metadata"], "labels": desired["metadata"]["labels"], "annotations": annotations}
    new = {**there, "metadata": metadata, "subsets": desired.get("subsets") or []}
    return None if same(new, there) else new
