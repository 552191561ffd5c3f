"""EndpointSlices of services that have a selector. Slices of other managers are never touched."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.controllers.controller import ControllerContext
from alcove.controllers.endpoints import slice_packing
from alcove.controllers.endpoints.backends import is_managed
from alcove.controllers.endpoints.managed_slices import ManagedSlices
from alcove.controllers.endpoints.service_watcher import ServiceWatcher
from alcove.controllers.endpoints.slice_packing import EndpointZones
from alcove.controllers.nodes.pods_by_node import index_by_node, on_node


class EndpointSlices(ServiceWatcher):
    name = "endpoint-slice"
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._slices = ManagedSlices(self, slice_packing.MANAGER)
        self._nodes = self.nodes()
        index_by_node(self._pods)
        self._zones = EndpointZones()
        self.on(self._nodes, self._services_on_node)

    def has_endpoints(self, key: ObjectKey) -> bool:
        return bool(self._slices.of(key))

    def _services_on_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Services with pods on a node whose zone has changed."""
        if not self._zones.note(change):
            return
        for key in on_node(self._pods, change.key.name):
            pod = self._pods.get(key)
            if pod is not None:
                yield from self._selectors.matching(key, pod)

    async def sync_service(self, key: ObjectKey, service: Object) -> None:
        if not is_managed(service):
            await self.on_service_deleted(key)
        elif "deletionTimestamp" not in service["metadata"]:
            service_backends = await self.backends(key, service)
            await self._slices.carry_out(
                key, slice_packing.plan(service, service_backends, self._slices.of(key), self._zones.of)
            )

    async def on_service_deleted(self, key: ObjectKey) -> None:
        await self._slices.delete(key, self._slices.of(key))
